// Fills a triangulated surface (surface.mesh, Medit) with tetrahedra (Gmsh 4.15). The triangles of reference 5, if
// there are any, are a crack: a face inside. -setnumber volume: the largest tetrahedron, mm^3.
DefineConstant[ volume = 60 ];
Merge "surface.mesh";
hull() = {}; crack() = {};
every() = Surface{:};
For k In {0:#every() - 1}
  If (every(k) == 5)
    crack() += 5;
  Else
    hull() += every(k);
  EndIf
EndFor
If (#hull() == 0)
  Error("surface.mesh has no triangles"); Exit;
EndIf
Surface Loop(1) = {hull()};
Volume(1) = {1};
If (#crack() > 0)
  Surface{5} In Volume{1};
EndIf
// The side of a regular tetrahedron of that volume.
Mesh.MeshSizeMax = (6 * Sqrt(2) * volume) ^ (1 / 3);
Mesh.Algorithm3D = 1;
Mesh.Optimize = 1;
Mesh.SaveAll = 1;
Mesh.SaveElementTagType = 1;
