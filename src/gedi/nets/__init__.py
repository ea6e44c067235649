"""Networks: encoders, heads, and GediNet, all of them together."""

from gedi.nets.encoder import MLPEncoder
from gedi.nets.gedinet import GediNet
from gedi.nets.heads import Projector, Prototypes
from gedi.nets.resnet import ResNet8

__all__ = ["GediNet", "MLPEncoder", "Projector", "Prototypes", "ResNet8"]
