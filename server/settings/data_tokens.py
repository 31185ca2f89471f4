"""What can be set of data tokens, with which clients reach a table's files; `server.settings.options` declares it among the rest."""

from __future__ import annotations

from model.options.option import Option, boolean, integer, optional, text
from server.settings.kinds import pairs

FIXED = Option(
    "data-token",
    pairs(),
    (),
    "What Paimon clients that ask for a data token get besides credentials of `data-token.role`: options of their file system, such as "
    "`fs.s3.endpoint=…`. Without that role it holds a fixed key, too (`fs.s3.accessKeyId=…,fs.s3.accessKeySecret=…`), which only "
    "administrators get, unless `data-token.shared` says otherwise. Without either no credentials leave the server.",
)
ROLE = Option(
    "data-token.role",
    optional(text()),
    None,
    "ARN of a role of the store's token service (AWS STS and those that speak like it). Who may read a table whole gets credentials "
    "of it for that table's directory and for `data-token.role-seconds`: to read, with UPDATE to write, with DELETE to remove. New "
    "tables get directories of their own then, which no earlier table of the name had.",
)
ROLE_SECONDS = Option(
    "data-token.role-seconds",
    integer(at_least=900, at_most=43_200),
    7200,
    "How long credentials of `data-token.role` last. Paimon's clients ask for new ones an hour before the end, so that with an hour or "
    "less they ask before every call to a file. Where the token service refuses the time, as the role's maximum is an hour or the "
    "server's own credentials are a role's, it is an hour until the server is started anew.",
)
SHARED = Option(
    "data-token.shared",
    boolean(),
    False,
    "Whether everybody who may read some table whole gets the fixed key of `data-token`: they can read and write all files it reaches.",
)
