# SPDX-License-Identifier: MIT
"""Looks at a running 05_halo_2d, which neither waits nor is asked:

    mpirun -n 4 05_halo_2d --size 1024 --iterations 100000 --publish field &
    python3 viewer.py field                 a window, as long as the job runs
    python3 viewer.py field --png field.png one picture
    python3 viewer.py field --text          numbers alone

Needs no MPI. A field in GPU memory is fetched with CuPy or PyTorch. What is
shown may be of two steps at once, since the job goes on meanwhile.
"""
import argparse
import json
import sys

try:
    import numpy
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)
import wharf


def to_host(segment, shape):
    """A copy of the first array of a segment."""
    if not segment.on_gpu:
        return segment.numpy("f4", shape).copy()
    try:
        return segment.cupy("f4", shape).get()
    except ImportError:
        return segment.torch("f4", shape).cpu().numpy()


def field_of(joined):
    """The whole field: each rank has a run of its rows, between two rows that
    belong to its neighbours."""
    about = json.loads(joined.note)
    rows, columns, pitch = about["rows"], about["columns"], about["pitch"]
    ranks = joined.node.size
    field = numpy.empty((rows, columns), "f4")
    for rank in range(ranks):
        first, behind = (rows * r // ranks for r in (rank, rank + 1))
        part = to_host(joined.buffer.segment(rank),
                       (behind - first + 2, pitch))
        field[first:behind] = part[1:-1, :columns]
    return field


def describe(field):
    return "%d x %d, from %.6g to %.6g, sum %.9g" % (
        *field.shape, field.min(), field.max(), field.sum(dtype="f8"))


def plotter(png):
    """matplotlib, and whether it can open a window."""
    try:
        import matplotlib
        if png:
            matplotlib.use("Agg")
        from matplotlib import pyplot
        pyplot.close(pyplot.figure())  # chooses what draws
    except ImportError:
        if png:
            sys.exit("viewer.py: no matplotlib here for a picture; use --text")
        print("viewer.py: no matplotlib here, so numbers alone, as with --text",
              file=sys.stderr)
        return None, False
    backend = matplotlib.get_backend().lower()
    return pyplot, backend not in ("agg", "pdf", "svg", "ps", "cairo")


def show(joined, png):
    pyplot, window = plotter(png)
    if pyplot is None:
        print(describe(field_of(joined)))
        return
    if not window:
        png = png or joined.name + ".png"
    field = field_of(joined)
    figure, axes = pyplot.subplots()
    image = axes.imshow(field, cmap="RdBu_r", vmin=-1, vmax=1)
    figure.colorbar(image)
    axes.set_title(describe(field), fontsize=8)
    if png:
        figure.savefig(png)
        print("%s: %s" % (png, describe(field)))
        return
    while pyplot.fignum_exists(figure.number):
        joined.check()  # raises when the job takes its field back
        field = field_of(joined)
        image.set_data(field)
        axes.set_title(describe(field), fontsize=8)
        pyplot.pause(0.2)


def main():
    parser = argparse.ArgumentParser(description="Looks at a published field.")
    parser.add_argument("name")
    parser.add_argument("--png", help="write one picture to this file")
    parser.add_argument("--text", action="store_true", help="print numbers")
    parser.add_argument("--wait", type=float, default=10, metavar="SECONDS",
                        help="for the name to appear (10)")
    options = parser.parse_args()
    try:
        with wharf.Joined(options.name,
                          wait_ms=int(options.wait * 1000)) as joined:
            if options.text:
                print(describe(field_of(joined)))
            else:
                show(joined, options.png)
    except wharf.Error as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
