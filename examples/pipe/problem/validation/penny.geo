// A penny-shaped crack of radius 1 in the middle of a cube, for the closed form of an infinite body. mm.
SetFactory("OpenCASCADE");
DefineConstant[ half = 8, size = 2.5, crack_size = 0.1 ];
Box(1) = {-half, -half, -half, 2 * half, 2 * half, 2 * half};
Disk(100) = {0, 0, 0, 1};
BooleanFragments { Volume{1}; Delete; } { Surface{100}; Delete; }
near = 1e-3;
crack() = Surface In BoundingBox {-1 - near, -1 - near, -near, 1 + near, 1 + near, near};
top() = Surface In BoundingBox {-half - near, -half - near, half - near, half + near, half + near, half + near};
bottom() = Surface In BoundingBox {-half - near, -half - near, -half - near, half + near, half + near, -half + near};
rest() = Boundary { Volume{:}; };
rest() -= {crack(), top(), bottom()};
Physical Surface(2) = Abs(rest()); Physical Surface(3) = bottom(); Physical Surface(4) = top(); Physical Surface(5) = crack();
Field[1] = Distance; Field[1].CurvesList = {Abs(Boundary { Surface{crack()}; })}; Field[1].Sampling = 400;
Field[2] = Threshold; Field[2].InField = 1; Field[2].SizeMin = crack_size; Field[2].DistMin = 0.2;
Field[2].SizeMax = size; Field[2].DistMax = half;
Background Field = 2;
Mesh.MeshSizeExtendFromBoundary = 0; Mesh.MeshSizeFromPoints = 0; Mesh.SaveAll = 0; Mesh.SaveElementTagType = 2;
