"""The one assembly: messages in, decoded, timed, aligned, written and accounted for."""
