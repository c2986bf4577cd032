"""The adversarial suite: attacks on a running seat or box over its own HTTP, and nothing but the standard
library, so that anyone can run it against any instance: docs/validation.md. `./dev validate URL`."""
