"""Secrets that a search looks for, in every form in which they could have got out."""

import base64
import collections
import json
import urllib.parse

# So many bytes in a row of a secret are a leak; of shorter secrets, the whole.
WINDOW = 16
BLOCK = WINDOW // 2


class Needles:
    """What must not be found. `kinds` counts the secrets by what they are."""

    def __init__(self):
        self.secrets, self.blocks = {}, set()
        self.windows, self.short = collections.defaultdict(set), collections.defaultdict(set)

    @property
    def kinds(self):
        return collections.Counter(self.secrets.values())

    def of(self, kind):
        return [secret for secret, its in self.secrets.items() if its == kind]

    def add(self, kind, secret):
        # strace prints such characters as they are, so that a plain search of its text is right.
        assert secret.isascii() and secret.isprintable() and not set(secret) & set('"\\'), f"an unforeseen {kind}"
        if secret in self.secrets:
            return
        self.secrets[secret] = kind
        header, *others = secret.split(".")
        if secret.startswith("eyJ") and len(others) == 2:
            # The header of a token is the same for everybody; its number is in the claims.
            self._add_forms(kind, secret[len(header) + 1 :])
            number = json.loads(base64.urlsafe_b64decode(others[0] + "==")).get("jti")
            if number:
                self._add_forms(kind, number)
        else:
            self._add_forms(kind, secret)

    def _add_forms(self, kind, text):
        data = text.encode()
        forms = {data, data.hex().encode(), data.hex().upper().encode(), urllib.parse.quote(text, safe="").encode()}
        for before in range(3):
            coded = base64.b64encode(bytes(before) + data)
            # What stands at the edges depends on the neighbours as well.
            coded = coded[4 if before else 0 : -4 if (before + len(data)) % 3 else None]
            forms |= {coded, coded.translate(bytes.maketrans(b"+/", b"-_"))}
        for form in forms:
            if len(form) < WINDOW:
                self.short[form].add(kind)
                continue
            for start in range(len(form) - WINDOW + 1):
                self.windows[form[start : start + WINDOW]].add(kind)
                self.blocks |= {form[start : start + BLOCK], form[start + BLOCK : start + WINDOW]}

    def find(self, data, allowed=()):
        """The kinds of the secrets in `data`, without those `allowed` there."""
        hits = {form for form in self.short if form in data}
        # Every window has a whole block in it that starts at a multiple of its length: few of them are looked at.
        if any(data[start : start + BLOCK] in self.blocks for start in range(0, len(data), BLOCK)):
            slices = {data[start : start + WINDOW] for start in range(len(data) - WINDOW + 1)}
            hits |= slices & self.windows.keys()
        # Two tokens of one person have parts in common: those are allowed where one of the two is, and tell little of which
        # it was.
        owners = [self.short.get(hit) or self.windows[hit] for hit in hits]
        owners = [kinds for kinds in owners if not kinds & set(allowed)]
        return set().union(*([kinds for kinds in owners if len(kinds) == 1] or owners))
