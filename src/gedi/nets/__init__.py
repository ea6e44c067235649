"""Networks: encoders, heads, GediNet (all of them together), and densities: p_Psi(x) of any kind."""

from gedi.nets.densities import ClusterDensity, ContrastiveDensity, Density, EnergyDensity
from gedi.nets.encoder import MLPEncoder
from gedi.nets.flow import FlowDensity
from gedi.nets.gedinet import GediNet
from gedi.nets.heads import Projector, Prototypes
from gedi.nets.image_encoder import ImageEncoder
from gedi.nets.resnet import ResNet8
from gedi.nets.vae import VaeDensity

__all__ = [
    "ClusterDensity",
    "ContrastiveDensity",
    "Density",
    "EnergyDensity",
    "FlowDensity",
    "GediNet",
    "ImageEncoder",
    "MLPEncoder",
    "Projector",
    "Prototypes",
    "ResNet8",
    "VaeDensity",
]
