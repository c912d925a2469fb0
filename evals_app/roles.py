"""Rules of routes about evals; see `sessions_app.roles`."""

from sessions_app.roles import RUN, AccessRule, Role

RUN_EVALS = AccessRule(Role.RUNNER, "run", "evals")
CANCEL_EVALS = AccessRule(Role.RUNNER, "cancel", "eval run")
WRITE_NOTE = AccessRule(Role.RUNNER, "note", "eval run")
EDIT_EVALSET = AccessRule(Role.RUNNER, "edit", "evalset")
EDIT_PRICES = AccessRule(Role.ADMIN, "edit", "prices")
REVIEWED_EVALSET = AccessRule(Role.RUNNER, form_field="seen", variants={"*": EDIT_EVALSET})
TRY_MODEL_CALL = AccessRule(Role.RUNNER, form_field="action", variants={"run": RUN})
"""Other buttons of the form change only the form."""

ORDER_VARIANTS = AccessRule(Role.RUNNER, form_field="action", variants={"run": RUN_EVALS})
"""Other buttons of the form change only the form."""

READ_AGENT_FILES = AccessRule(Role.ADMIN)
SAVE_VARIANT = AccessRule(Role.ADMIN, "edit", "agent")
OPTIMISE = AccessRule(Role.RUNNER, "optimise", "evalset")
ORDER_OPTIMISATION = AccessRule(Role.RUNNER, form_field="action", variants={"run": OPTIMISE})
"""Other buttons of the form change only the form."""

CANCEL_OPTIMISATION = AccessRule(Role.RUNNER, "cancel", "optimisation")
RENAME_PLAYGROUND_RUN = AccessRule(Role.RUNNER, "rename", "playground run")
DELETE_PLAYGROUND_RUN = AccessRule(Role.ADMIN, "delete", "playground run")
DELETE_RUN = AccessRule(Role.ADMIN, "delete", "eval run")
DELETE_EVALSET = AccessRule(Role.ADMIN, "delete", "evalset")
EXPORT_EVALSETS = AccessRule(Role.READER, "export", "evalset")
EXPORT_EVALS = AccessRule(Role.READER, "export", "eval run")
