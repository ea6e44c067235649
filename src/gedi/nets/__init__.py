"""Networks: encoders, heads, densities p_Psi(x), and GediNet, which combines them."""

from gedi.nets.densities import ClusterDensity, ContrastiveDensity, Density, EnergyDensity, score
from gedi.nets.encoders import Encoder, MLPEncoder
from gedi.nets.gedinet import GediNet
from gedi.nets.heads import LinearHeads, Projector, Prototypes
from gedi.nets.image_encoders import ConvNet, ImageEncoder, ResNet8
from gedi.nets.likelihoods import FlowDensity, VaeDensity
