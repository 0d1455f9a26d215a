"""The `kb` command. This module imports nothing, so that Ctrl-C is in our hands from the first moment on."""


def main() -> None:
    """Run `kb`. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM."""
    from kb_pipeline.cli.stops import end_on_signals

    end_on_signals()
    from kb_pipeline.cli.group import run

    run()
