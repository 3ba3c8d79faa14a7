# SPDX-License-Identifier: MIT
# wharf-bench. Included by CMakeLists.txt, which has tool_test.

# Data decides, not time: a small run on every number of ranks.
foreach(np 1 3)
  tool_test(NAME bench.attach.np${np} PROGRAM wharf-bench NP ${np}
            EXPECT -DSENTENCE=PASS
            ARGS attach --sizes 8,4097,2m --rounds 3 --warmup 1)
endforeach()
tool_test(NAME bench.worker PROGRAM wharf-bench NP 2 EXPECT -DSENTENCE=PASS
          ARGS worker --sizes 4k --rounds 3 --warmup 1)
tool_test(NAME bench.worker PROGRAM wharf-bench NP 2 DEVICES 2
          EXPECT -DSENTENCE=PASS
          ARGS worker --sizes 4k --rounds 3 --warmup 1)
tool_test(NAME bench.attach_host PROGRAM wharf-bench NP 2 EXPECT -DSENTENCE=PASS
          ARGS attach --sizes 1m --rounds 2 --space host)
tool_test(NAME bench.attach_json PROGRAM wharf-bench NP 2
          EXPECT -DLIST=results -DLENGTH=8
          ARGS attach --sizes 4k,2m --rounds 2 --json)
foreach(np 1 2 4)
  tool_test(NAME bench.sync.np${np} PROGRAM wharf-bench NP ${np}
            EXPECT -DSENTENCE=PASS ARGS sync --rounds 3 --warmup 1)
endforeach()
foreach(command barrier notify event)
  tool_test(NAME bench.${command} PROGRAM wharf-bench NP 3
            EXPECT "-DSENTENCE=op ${command}[^#]*#[^#]*#[^#]*#[^#]*#[^#]*op ${command}-issue[^#]*#[^#]*#[^#]*# PASS"
            ARGS ${command} --rounds 2 --warmup 0)
endforeach()
tool_test(NAME bench.latency.np1 PROGRAM wharf-bench NP 1
          EXPECT "-DSENTENCE=no pair.*PASS" ARGS latency --rounds 1)
tool_test(NAME bench.latency.np4 PROGRAM wharf-bench NP 4
          EXPECT "-DSENTENCE= 2-3  host, .*matrix of put-latency.*# PASS"
          ARGS latency --rounds 2 --warmup 0)
tool_test(NAME bench.latency PROGRAM wharf-bench NP 4 DEVICES 2
          EXPECT "-DSENTENCE= 0-1  same-gpu, mem-ops.* 0-2  nvlink, kernel"
          ARGS latency --rounds 1 --warmup 0)
tool_test(NAME bench.matrix.np1 PROGRAM wharf-bench NP 1
          EXPECT "-DSENTENCE=no pair.*PASS" ARGS matrix --rounds 1)
tool_test(NAME bench.matrix.np3 PROGRAM wharf-bench NP 3
          EXPECT "-DSENTENCE= 2-1  host, host.*op all-to-all.*row to column.*# PASS"
          ARGS matrix --sizes 8,4k --rounds 2 --warmup 0)
tool_test(NAME bench.matrix PROGRAM wharf-bench NP 4 DEVICES 2
          EXPECT "-DSENTENCE= 0-1  same-gpu, .* 0-2  nvlink, .*# PASS"
          ARGS matrix --sizes 4104 --rounds 1 --warmup 0)
tool_test(NAME bench.latency_json PROGRAM wharf-bench NP 3
          EXPECT -DLIST=results -DLENGTH=6
          ARGS latency --rounds 1 --warmup 0 --json)
tool_test(NAME bench.sync_fake PROGRAM wharf-bench NP 4 DEVICES 2
          EXPECT -DSENTENCE=PASS ARGS sync --rounds 3 --warmup 1)
foreach(np 1 3)
  tool_test(NAME bench.ring.np${np} PROGRAM wharf-bench NP ${np}
            EXPECT -DSENTENCE=PASS
            ARGS ring --sizes 64k --rounds 2 --warmup 0)
endforeach()
tool_test(NAME bench.ring_fake PROGRAM wharf-bench NP 2 DEVICES 2
          EXPECT -DSENTENCE=PASS
          ARGS ring --sizes 64k --rounds 1 --warmup 0)
tool_test(NAME bench.ring_json PROGRAM wharf-bench NP 2
          EXPECT -DLIST=results -DLENGTH=6 ARGS ring --sizes 64k --rounds 2
                 --json)
tool_test(NAME bench.sync_json PROGRAM wharf-bench NP 2
          EXPECT -DLIST=results -DLENGTH=6 ARGS sync --rounds 2 --json)
foreach(np 1 3)
  tool_test(NAME bench.copy.np${np} PROGRAM wharf-bench NP ${np}
            EXPECT -DSENTENCE=PASS ARGS copy --sizes 8,4k,1m --rounds 2)
endforeach()
tool_test(NAME bench.copy_fake PROGRAM wharf-bench NP 2 DEVICES 2
          EXPECT -DSENTENCE=PASS ARGS copy --sizes 8,4104,256k --rounds 2)
tool_test(NAME bench.copy_json PROGRAM wharf-bench NP 2 DEVICES 2
          EXPECT -DLIST=results -DLENGTH=24
          ARGS copy --sizes 4k,64k --rounds 2 --json)
foreach(np 1 2 3)
  tool_test(NAME bench.exchange.np${np} PROGRAM wharf-bench NP ${np}
            EXPECT -DSENTENCE=PASS
            ARGS exchange --sizes 64k,1003 --rounds 2)
endforeach()
tool_test(NAME bench.exchange_fake PROGRAM wharf-bench NP 2 DEVICES 2
          EXPECT -DSENTENCE=PASS ARGS exchange --sizes 64k --rounds 2)
tool_test(NAME bench.exchange_json PROGRAM wharf-bench NP 2
          EXPECT -DLIST=results -DLENGTH=4
          ARGS exchange --sizes 64k --rounds 2 --json)
tool_test(NAME bench.zero_copy PROGRAM wharf-bench NP 2
          EXPECT "-DSENTENCE=no GPU to read host memory.*PASS"
          ARGS zero-copy --sizes 8,1m --rounds 2)
tool_test(NAME bench.zero_copy_fake PROGRAM wharf-bench NP 2 DEVICES 2
          EXPECT -DSENTENCE=PASS ARGS zero-copy --sizes 4104,256k --rounds 2)
tool_test(NAME bench.zero_copy_json PROGRAM wharf-bench NP 1 DEVICES 1
          EXPECT -DLIST=results -DLENGTH=8
          ARGS zero-copy --sizes 64k --rounds 2 --json)
tool_test(NAME bench.usage PROGRAM wharf-bench NP 1
          EXPECT -DCODE=2 -DSENTENCE=unusable.option
          ARGS attach --sizes 2x)
tool_test(NAME bench.no_command PROGRAM wharf-bench NP 1
          EXPECT -DCODE=2 -DSENTENCE=no.command)


# The header tells what a figure depends on, in every command the same.
tool_test(NAME bench.head PROGRAM wharf-bench NP 2 DEVICES 2
          EXPECT "-DSENTENCE=wharf [0-9.]+  .*hwloc .*CUDA 13[.]0  driver .*# machine .* cores .*# gpu 0  0000:06:00.0 .*# gpu 1 .*# clock .* tick .*1 GB = 1e9 bytes.*# rank 0  host .* cpus .* gpu 0 .*# rank 1 "
          ARGS barrier --rounds 1 --warmup 0)
tool_test(NAME bench.json PROGRAM wharf-bench NP 2
          EXPECT "-DSENTENCE=\"cuda\": .*\"driver\": .*\"cpu_mhz\": .*\"tick_ns\": .*\"rate_unit\": \"k/s\", \"bad_bytes\": 0, \"kept\": 0, \"from\": null, .*\"pass\": true"
          ARGS notify --rounds 1 --warmup 0 --json)
tool_test(NAME bench.quiet PROGRAM wharf-bench NP 2
          EXPECT "-DNOT=round, " ARGS notify --rounds 1 --warmup 0)
tool_test(NAME bench.help PROGRAM wharf-bench NP 1
          EXPECT "-DSENTENCE=--spoil.*PASS when no byte was wrong"
          ARGS attach --help)

# A byte that is made wrong is found, whatever is measured.
foreach(command attach barrier notify event latency copy matrix exchange
                worker ring)
  set(sizes)
  if(command MATCHES "attach|copy|matrix|exchange|ring|worker")
    set(sizes --sizes 4k)
  endif()
  tool_test(NAME bench.spoil.${command} PROGRAM wharf-bench NP 2 FAILS 1
            EXPECT "-DSENTENCE=# FAIL"
            ARGS ${command} ${sizes} --rounds 1 --warmup 0 --spoil)
endforeach()
foreach(command attach copy zero-copy)
  tool_test(NAME bench.spoil.${command} PROGRAM wharf-bench NP 2 DEVICES 2
            FAILS 1 EXPECT "-DSENTENCE=\"pass\": false"
            ARGS ${command} --sizes 4k --rounds 1 --warmup 0 --spoil --json)
endforeach()
