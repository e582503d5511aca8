#!/usr/bin/env python3
"""A thick-walled pipe under pressure across two sites: pipe.py URL-OF-A URL-OF-B

A meshes the surface and makes quadratic elements; B fills the volume, solves and evaluates. Every mesh
goes from site to site by reference: B fetches it from A, A from B, and nothing of it comes here.
"""

import sys

import fishplate

a, b = (fishplate.Server(url) for url in sys.argv[1:3])
inner, outer, length, pressure = 50.0, 100.0, 150.0, 100.0  # mm, MPa
DECK = f"""*INCLUDE, INPUT=mesh.inp
*MATERIAL, NAME=WALL
*ELASTIC
210000, 0.3
*SOLID SECTION, ELSET=SOLID, MATERIAL=WALL
** Both ends are held along the axis and against turning about it.
*TRANSFORM, NSET=NODES_3, TYPE=C
0, 0, 0, 0, 0, 1
*TRANSFORM, NSET=NODES_4, TYPE=C
0, 0, 0, 0, 0, 1
*STEP
*STATIC, SOLVER=ITERATIVE CHOLESKY
*BOUNDARY
NODES_3, 2, 3
NODES_4, 2, 3
*DSLOAD
SURFACE_1, P, {pressure}
*EL FILE
S
*END STEP
"""

gmsh, to_t10 = a["gmsh"].by_reference(), a["t4-to-t10"].by_reference()
tetgen, ccx, hoop = b["tetgen"].by_reference(), b["ccx"].by_reference(), b["hoop"]

surface = gmsh(inner=inner, outer=outer, length=length, size=10).surface
tets = tetgen(surface=surface)
mesh = to_t10(nodes=tets.nodes, elements=tets.elements, faces=tets.faces).mesh
job = ccx.spawn(deck=DECK.encode(), mesh=mesh)
for transfer in job.wait().transfers:
    print(f"{transfer.parameter}: {transfer.bytes:,} bytes from {transfer.peer}")
computed = hoop(field=job.result.result, inner=inner, outer=outer, length=length).stress

exact = pressure * (inner**2 + outer**2) / (outer**2 - inner**2)  # Lame, 1852
print(f"hoop stress at the bore: {computed:.2f} MPa, exactly {exact:.2f} MPa")
print("bytes of ours: {} sent, {} received".format(*fishplate.transferred()))
