// A curved pipe with cooling passages in its wall and a crack that starts at the bore (Gmsh 4.15). mm.
//
// The pipe's axis is an arc of radius `bend` around the z axis, from the plane y = 0 over `angle` degrees. The crack
// lies in the plane z = 0, in which the pipe and its loads are symmetric, on the inner side of the bend. Its front is
// a smooth curve through the points of front.txt (x, y a line), which begin and end in the bore: the wall clips it.
// Physical surfaces: 1 bore, 2 outside, 3 end at y = 0, 4 the other end, 5 crack, 6 cooling passages.
//
// Numbers come by -setnumber, tables from files that ListFromFile reads: numbers only, so that no caller's text is run.
SetFactory("OpenCASCADE");
DefineConstant[ inner = 20, outer = 35, bend = 80, angle = 60, passages = 4, passage_radius = 4, size = 6,
                crack_size = 1 ];

wall = outer - inner;
If (wall <= 0)
  Error("the inner radius must be smaller than the outer one"); Exit;
EndIf
If (bend <= outer)
  Error("the bend's radius must exceed the outer radius"); Exit;
EndIf
If (passages % 2 != 0)
  Error("the number of passages must be even: the plane of the bend is one of symmetry"); Exit;
EndIf
If (passages > 0 && 2 * passage_radius >= 0.8 * wall)
  Error("the passages must be narrower than 0.8 of the wall"); Exit;
EndIf
theta = angle * Pi / 180;
middle = (inner + outer) / 2;

// Two halves of the cross-section at y = 0, above and below z = 0, so that the plane of the crack is an inner face.
upper() = {}; lower() = {};
Point(1) = {bend, 0, 0};
Point(2) = {bend - outer, 0, 0}; Point(3) = {bend - inner, 0, 0};
Point(4) = {bend + inner, 0, 0}; Point(5) = {bend + outer, 0, 0};
Point(6) = {bend, 0, inner}; Point(7) = {bend, 0, outer};
Point(8) = {bend, 0, -inner}; Point(9) = {bend, 0, -outer};
Line(1) = {2, 3}; Line(2) = {4, 5};
Circle(3) = {3, 1, 6}; Circle(4) = {6, 1, 4}; Circle(5) = {2, 1, 7}; Circle(6) = {7, 1, 5};
Circle(7) = {3, 1, 8}; Circle(8) = {8, 1, 4}; Circle(9) = {2, 1, 9}; Circle(10) = {9, 1, 5};
Curve Loop(1) = {1, 3, 4, 2, -6, -5}; Curve Loop(2) = {1, 7, 8, 2, -10, -9};
each = passages / 2;
For k In {1:each}
  turn = Pi * (k - 0.5) / each;
  For side In {0:1}
    x = bend - middle * Cos(turn); z = (1 - 2 * side) * middle * Sin(turn);
    p = newp; Point(p) = {x, 0, z};
    Point(p + 1) = {x - passage_radius, 0, z}; Point(p + 2) = {x + passage_radius, 0, z};
    Point(p + 3) = {x, 0, z + passage_radius}; Point(p + 4) = {x, 0, z - passage_radius};
    c = newc;
    Circle(c) = {p + 1, p, p + 3}; Circle(c + 1) = {p + 3, p, p + 2};
    Circle(c + 2) = {p + 2, p, p + 4}; Circle(c + 3) = {p + 4, p, p + 1};
    loop = newcl; Curve Loop(loop) = {c:c + 3};
    If (side == 0)
      upper() += loop;
    Else
      lower() += loop;
    EndIf
  EndFor
EndFor
Plane Surface(1) = {1, upper()}; Plane Surface(2) = {2, lower()};
above() = Extrude {{0, 0, 1}, {0, 0, 0}, theta} { Surface{1}; };
below() = Extrude {{0, 0, 1}, {0, 0, 0}, theta} { Surface{2}; };

// The crack: a face from the front to a point in the bore, where it does not matter.
cracked = FileExists("front.txt");
faces() = {};
If (cracked)
  table() = ListFromFile("front.txt");
  count = #table() / 2;
  If (count < 5)
    Error("the front must have at least 5 points"); Exit;
  EndIf
  through() = {};
  For k In {0:count - 1}
    p = newp; Point(p) = {table(2 * k), table(2 * k + 1), 0}; through() += p;
  EndFor
  For k In {0:1}
    x = table(k * (2 * count - 2)); y = table(k * (2 * count - 2) + 1);
    If (Hypot(x, y) <= bend - inner)
      Error("the front must begin and end in the bore"); Exit;
    EndIf
  EndFor
  far = newp;
  mx = (table(0) + table(2 * count - 2)) / 2; my = (table(1) + table(2 * count - 1)) / 2;
  Point(far) = {mx * (bend - 0.5 * inner) / Hypot(mx, my), my * (bend - 0.5 * inner) / Hypot(mx, my), 0};
  front = newc; Spline(front) = through();
  c = newc; Line(c) = {through(count - 1), far}; Line(c + 1) = {far, through(0)};
  // The mesh's size is told by the distance from this copy; the front itself is cut to pieces below.
  ruler = newc; Spline(ruler) = through();
  loop = newcl; Curve Loop(loop) = {front, c, c + 1};
  s = news; Plane Surface(s) = {loop};
  faces() = {s};
EndIf
all() = BooleanFragments { Volume{:}; Delete; } { Surface{faces()}; Delete; };

// What a face is: by its area (a quarter of a torus of minor radius r: angle r (pi bend / 2 -+ r)), or by where it lies.
bore() = {}; outside() = {}; start() = {}; end() = {}; crack() = {}; passage() = {};
every() = Surface{:};
For k In {0:#every() - 1}
  s = every(k);
  area = Mass Surface{s};
  at() = CenterOfMass Surface{s};
  box() = BoundingBox Surface{s};
  turned = at(1) * Cos(theta) - at(0) * Sin(theta);
  near = 1e-4 * inner;
  If (Fabs(at(1)) < near)
    start() += s;
  ElseIf (Fabs(turned) < near)
    end() += s;
  ElseIf (box(5) - box(2) < near)
    // On z = 0: the crack touches neither end; the part of its face that is in the bore is dropped.
    If (box(1) > near && Hypot(at(0), at(1)) < bend - inner)
      crack() += s;
    EndIf
  ElseIf (Fabs(Fabs(area / (theta * inner) - Pi * bend / 2) - inner) < 1e-3 * bend)
    bore() += s;
  ElseIf (Fabs(Fabs(area / (theta * outer) - Pi * bend / 2) - outer) < 1e-3 * bend)
    outside() += s;
  Else
    passage() += s;
  EndIf
EndFor
If (#bore() != 4 || #outside() != 4 || #start() != 2 || #end() != 2 || #passage() != 4 * passages)
  Error("the pipe's faces were not found: %g %g %g %g %g", #bore(), #outside(), #start(), #end(), #passage()); Exit;
EndIf
If (cracked && #crack() != 1)
  Error("the crack has %g faces in the wall, 1 wanted", #crack()); Exit;
EndIf
Physical Surface("bore", 1) = bore(); Physical Surface("outside", 2) = outside();
Physical Surface("start", 3) = start(); Physical Surface("end", 4) = end();
Physical Surface("crack", 5) = crack(); Physical Surface("passages", 6) = passage();

// Sizes: fine at the front and where a row of refine.txt (x, y, z, size) asks for it.
fields() = {};
If (cracked)
  Field[1] = Distance; Field[1].CurvesList = {ruler}; Field[1].Sampling = 400;
  Field[2] = Threshold; Field[2].InField = 1;
  Field[2].SizeMin = crack_size; Field[2].DistMin = 2 * crack_size;
  Field[2].SizeMax = size; Field[2].DistMax = 2 * crack_size + 3 * size;
  fields() += 2;
EndIf
If (FileExists("refine.txt"))
  wanted() = ListFromFile("refine.txt");
  For k In {0:#wanted() / 4 - 1}
    f = newf;
    Field[f] = Ball;
    Field[f].XCenter = wanted(4 * k); Field[f].YCenter = wanted(4 * k + 1); Field[f].ZCenter = wanted(4 * k + 2);
    Field[f].VIn = wanted(4 * k + 3); Field[f].VOut = size;
    Field[f].Radius = 2 * wanted(4 * k + 3); Field[f].Thickness = 4 * wanted(4 * k + 3);
    fields() += f;
  EndFor
EndIf
If (#fields() > 0)
  f = newf; Field[f] = Min; Field[f].FieldsList = {fields()}; Background Field = f;
EndIf
Mesh.MeshSizeMax = size;
Mesh.MeshSizeExtendFromBoundary = 0;
Mesh.MeshSizeFromPoints = 0;
Mesh.MeshSizeFromCurvature = 6;
// The other half of the plane z = 0 has no physical surface and is not saved: the wall is one body.
Mesh.SaveAll = 0;
Mesh.SaveElementTagType = 2;
