"""Drives of which something is wrong: what the simulator makes, with faults; and the truth about them."""

from faulty.drive import FaultyDrive as FaultyDrive
from faulty.drive import simulate as simulate
from faulty.options import BoxErrors as BoxErrors
from faulty.options import FaultyOptions as FaultyOptions
from faulty.options import GpsErrors as GpsErrors
from faulty.options import ImuErrors as ImuErrors
from faulty.options import Latency as Latency
from faulty.options import faulty_options as faulty_options
from faulty.truth import Truth as Truth
from faulty.video import LABELS as LABELS
from faulty.video import read_number as read_number
