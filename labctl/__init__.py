"""labctl measures what a cryptographic operation costs on a microcontroller."""

__version__ = "0.1.0"


def check_instruments_package() -> None:
    """Raise EnvironmentFault where another distribution sits in the place of our `instruments` package."""
    from labctl.errors import EnvironmentFault

    remedy = (
        "the package `instruments` found here is not labctl's (InstrumentKit uses the same name): "
        "install labctl in a virtual environment of its own"
    )
    try:
        import instruments
    except ImportError as error:
        raise EnvironmentFault(f"cannot import `instruments` ({error}); {remedy}") from error
    if not getattr(instruments, "LABCTL_INSTRUMENTS", False):
        raise EnvironmentFault(f"{remedy} (it lies at {getattr(instruments, '__file__', 'an unknown place')})")
