"""Why a run failed, in a sentence."""

import dagster as dg


def first_failure(result: dg.ExecuteInProcessResult) -> str:
    """The one sentence that says why a run failed."""
    for event in result.filter_events(lambda event: event.is_step_failure):
        data = event.step_failure_data
        if data.user_failure_data and data.user_failure_data.description:
            return str(data.user_failure_data.description)
        if data.error:
            cause = data.error.cause or data.error
            return str(cause.message).strip().splitlines()[0]
    return "The run failed; see its log in the Dagster UI (`make dev`)."
