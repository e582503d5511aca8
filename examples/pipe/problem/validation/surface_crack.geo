// A semi-elliptical crack in the plane z = 0 that opens to a wall, the ellipse's centre on it. mm.
//
// With inner = 0: in a plate between y = 0 and y = thick, half as wide as `wide` and half as long, along z, as `long`; the
// mouth along x. Otherwise: in a tube around the x axis, half as long as `long`, from its bore, the mouth along the axis.
// Physical surfaces: 1 the wall with the mouth, 2 other walls, 3 and 4 the ends, 5 the crack.
SetFactory("OpenCASCADE");
DefineConstant[ inner = 0, thick = 2.5, deep = 1, half = 1.6666666666666667, wide = 8, long = 8, size = 2, crack_size = 0.12 ];
If (inner > 0)
  Cylinder(1) = {-long, 0, 0, 2 * long, 0, 0, inner + thick};
  Cylinder(2) = {-long, 0, 0, 2 * long, 0, 0, inner};
  BooleanDifference(3) = { Volume{1}; Delete; } { Volume{2}; Delete; };
Else
  Box(3) = {-wide, 0, -long, 2 * wide, thick, 2 * long};
EndIf
If (half >= deep)
  Disk(100) = {0, inner, 0, half, deep};
Else
  Error("the crack must not be deeper than half as long"); Exit;
EndIf
ruler = newc; Ellipse(ruler) = {0, inner, 0, half, deep, 0, Pi};
BooleanFragments { Volume{3}; Delete; } { Surface{100}; Delete; }
near = 1e-3; far = 1e3;
crack() = Surface In BoundingBox {-half - near, inner - near, -near, half + near, inner + deep + near, near};
If (inner > 0)
  first() = Surface In BoundingBox {-long - near, -far, -far, -long + near, far, far};
  last() = Surface In BoundingBox {long - near, -far, -far, long + near, far, far};
  mouth() = Surface In BoundingBox {-far, -inner - near, -inner - near, far, inner + near, inner + near};
  // The half of the ellipse that is in the bore.
  mouth() -= {Surface In BoundingBox {-half - near, inner - deep - near, -near, half + near, inner + near, near}};
Else
  first() = Surface In BoundingBox {-far, -far, -long - near, far, far, -long + near};
  last() = Surface In BoundingBox {-far, -far, long - near, far, far, long + near};
  mouth() = Surface In BoundingBox {-far, -near, -far, far, near, far};
EndIf
rest() = Abs(Boundary { Volume{:}; });
rest() -= {crack(), first(), last(), mouth()};
Physical Surface(1) = mouth(); Physical Surface(2) = rest();
Physical Surface(3) = first(); Physical Surface(4) = last(); Physical Surface(5) = crack();
Field[1] = Distance; Field[1].CurvesList = {ruler}; Field[1].Sampling = 400;
Field[2] = Threshold; Field[2].InField = 1; Field[2].SizeMin = crack_size; Field[2].DistMin = 2 * crack_size;
Field[2].SizeMax = size; Field[2].DistMax = 2 * half + 2 * size;
Background Field = 2;
Mesh.MeshSizeExtendFromBoundary = 0; Mesh.MeshSizeFromPoints = 0; Mesh.SaveAll = 0; Mesh.SaveElementTagType = 2;
