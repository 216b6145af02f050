"""What the Python programs of bench/ share: the peak memory of a piece of work."""
import resource


def forget_peak():
    """From here on, the system counts the most memory anew."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def peak():
    """MiB since then, or of the whole process where the system does not say."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(work, *arguments):
    """Prints what work returns, and its peak memory."""
    forget_peak()
    figure = work(*arguments)
    print(figure, peak(), flush=True)
