// Fills the bore of a pipe with prisms along its wall and tetrahedra within (Gmsh 4.15). mm; what is saved is in m.
// bore.msh holds the bore as surface 1, its triangles turned inwards, and its ends as curves 3 (inlet) and 4.
DefineConstant[ layers = 5, first = 0.2, growth = 1.5, size = 10 ];
Merge "bore.msh";
// Nothing is split anew, but the extrusion is told what there is.
CreateTopology{0, 1};
ends() = Boundary{ Surface{1}; };
each() = {}; heights() = {}; height = 0;
For i In {0:layers - 1}
  height += first * growth^i;
  heights() += height; each() += 1;
EndFor
// out(): the innermost surface, the volume of prisms, then the side that each end's curve sweeps.
out() = Extrude { Surface{1}; Layers{ {each()}, {heights()} }; Recombine; Using Index[0]; };
caps() = {};
For i In {0:1}
  side() = Boundary{ Surface{out(2 + i)}; };
  loop = newcl; Curve Loop(loop) = {side(2)};
  cap = news; Plane Surface(cap) = {loop};
  caps() += cap;
  If (Fabs(ends(i)) == 3)
    Physical Surface("inlet", 3) = {cap, out(2 + i)};
  Else
    Physical Surface("outlet", 4) = {cap, out(2 + i)};
  EndIf
EndFor
loop = newsl; Surface Loop(loop) = {out(0), caps()};
core = newv; Volume(core) = {loop};
Physical Surface("wall", 1) = {1};
Physical Volume("gas", 1) = {out(1), core};
Mesh.MeshSizeMax = size;
Mesh.ScalingFactor = 0.001;
