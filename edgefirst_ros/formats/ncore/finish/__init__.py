"""What NCore writes when a sequence ends: facts of its journal, solved and stored."""
