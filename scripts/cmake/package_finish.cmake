# SPDX-License-Identifier: MIT
# Run by cpack on the files of Debian packages before it packs them: what
# Debian wants and cpack does not do.
file(GLOB parts ${CPACK_TEMPORARY_DIRECTORY}/deb_*)
foreach(part IN LISTS parts)
  file(GLOB_RECURSE pages ${part}/usr/share/man/*.[1-9])
  file(GLOB_RECURSE archives ${part}/usr/*.a)
  foreach(file IN LISTS archives)
    execute_process(COMMAND ${WHARF_STRIP} --strip-debug ${file}
                    COMMAND_ERROR_IS_FATAL ANY)
  endforeach()

  # What other packages bring, the system finds: a path of this machine stays
  # only if it leads to what came another way.
  file(GLOB binaries ${part}/usr/bin/* ${part}/usr/lib/*.so.*
       ${part}/usr/lib/*/*.so.*)
  foreach(file IN LISTS binaries)
    if(IS_SYMLINK ${file})
      continue()
    endif()
    file(READ_ELF ${file} RUNPATH paths CAPTURE_ERROR error)
    set(kept ${paths})
    list(FILTER kept EXCLUDE REGEX "^/usr/lib/")
    list(JOIN paths ":" old)
    list(JOIN kept ":" new)
    if(NOT new STREQUAL old)
      file(RPATH_CHANGE FILE ${file} OLD_RPATH "${old}" NEW_RPATH "${new}")
    endif()
  endforeach()

  # A change log, as far as it is known here: this version.
  file(GLOB directories ${part}/usr/share/doc/*/copyright)
  foreach(file IN LISTS directories)
    get_filename_component(directory ${file} DIRECTORY)
    set(log ${directory}/changelog.Debian)
    string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
    file(WRITE ${log}
         "wharf (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) "
         "unstable; urgency=medium\n\n  * Version ${CPACK_PACKAGE_VERSION}.\n\n"
         " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
    list(APPEND pages ${log})
  endforeach()
  if(pages)
    execute_process(COMMAND gzip -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()
