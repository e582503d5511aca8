// A thick-walled pipe, its axis along z. Run with -setnumber to change a number (Gmsh 4.15).
// Physical surfaces: 1 bore, 2 outside, 3 end at z = 0, 4 end at z = length.
SetFactory("Built-in");
DefineConstant[ inner = 50, outer = 80, length = 150, size = 8 ];  // mm

If (inner >= outer)
  Error("the inner radius must be smaller than the outer one");
  Exit;
EndIf

// Four quadrants: arcs of a circle must be shorter than pi, and the corner points lie on the
// planes x = 0 and y = 0, where symmetry forbids displacement across the plane.
Point(1) = {0, 0, 0, size};
For q In {0:3}
  c = Cos(q * Pi / 2); s = Sin(q * Pi / 2);
  Point(10 + q) = {inner * c, inner * s, 0, size};
  Point(20 + q) = {outer * c, outer * s, 0, size};
EndFor
For q In {0:3}
  n = (q + 1) % 4;
  Circle(10 + q) = {10 + q, 1, 10 + n};
  Circle(20 + q) = {20 + q, 1, 20 + n};
  Line(30 + q) = {10 + q, 20 + q};
EndFor
For q In {0:3}
  n = (q + 1) % 4;
  Curve Loop(q + 1) = {30 + q, 20 + q, -(30 + n), -(10 + q)};
  Plane Surface(q + 1) = {q + 1};
EndFor

bore() = {}; outside() = {}; far() = {};
For q In {1:4}
  // out() holds: the far end, the volume, then the sides in the order of the curve loop.
  out() = Extrude {0, 0, length} { Surface{q}; };
  far() += out(0);
  outside() += out(3);
  bore() += out(5);
EndFor
Physical Surface("bore", 1) = bore();
Physical Surface("outside", 2) = outside();
Physical Surface("start", 3) = {1:4};
Physical Surface("end", 4) = far();

// The four planes between the quadrants carry no physical surface and so are not saved: TetGen
// fills the wall as one body.
Mesh.SaveAll = 0;
Mesh.SaveElementTagType = 2;   // Medit references are the physical surfaces
