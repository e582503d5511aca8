#!/bin/sh
# One step of the Pipe Problem without services: direct.sh PROBLEM WORK, numbers in the environment. Each component has a
# directory of its own, into which its inputs are copied, as between machines. Says of each how long it took, in seconds.
set -eu
problem=$1 work=$2
programs=$problem/programs
mkdir -p "$work"
cd "$work"
cp "$FRONT" front.txt
cp "$DECK" job.inp

begin() { began=$(date +%s%N); mkdir -p "$1"; component=$1; cd "$1"; }
end() { cd "$work"; echo "$component $(($(date +%s%N) - began))"; }
# A failure that the exit code does not tell.
clean() { ! grep -qE '^Error *:|^ *\*ERROR|FOAM FATAL|Failed [0-9]+ mesh checks' log || { tail log >&2; exit 1; }; }

begin meshing-loop
cp ../front.txt . && cp "$problem/sites/geometry/cracked_pipe.geo" .
rejected=1 passes=0
while [ "$rejected" -ne 0 ]; do
    passes=$((passes + 1))
    [ "$passes" -le 8 ] || { echo "the mesh was not accepted" >&2; exit 1; }
    gmsh cracked_pipe.geo -2 -nt 1 -format mesh -o surface.mesh -setnumber inner "$INNER" -setnumber outer "$OUTER" \
        -setnumber bend "$BEND" -setnumber angle "$ANGLE" -setnumber passages "$PASSAGES" \
        -setnumber passage_radius "$PASSAGE_RADIUS" -setnumber size "$SIZE" -setnumber crack_size "$CRACK_SIZE" >log
    clean
    tetgen "-pYq1.4/12ga$TET_VOLUME" surface.mesh >log
    "$programs/mesh_check.py" surface.mesh 4 found.txt rejected --volume surface.1.mesh >log
    rejected=$(cat rejected)
    cat found.txt >>refine.txt
done
end

begin t4-to-t10
cp ../meshing-loop/surface.1.mesh volume.mesh
"$problem/../t4_to_t10.py" --crack 5 --held "$HELD_X" "$HELD_Y" "$HELD_Z" volume.mesh mesh.inp >log
end

begin generalized-mesher
cp ../meshing-loop/surface.mesh .
"$programs/generalized_mesher.py" surface.mesh mesh --layers "$LAYERS" --first "$FIRST" \
    --growth "$GROWTH" --size "$GAS_SIZE" >log 2>&1
clean
end

begin fluid-thermal
cp -r ../generalized-mesher/mesh .
"$programs/fluid_thermal.py" mesh wall.vtu gas.vtu --pressure "$PRESSURE" --temperature "$TEMPERATURE" \
    --velocity "$VELOCITY" --intensity 0.05 --wall-temperature "$WALL_TEMPERATURE" --iterations 300 --tolerance 1e-4 \
    --ranks 1 --converged converged --imbalance imbalance --y-plus y_plus >log
clean
end

begin film-and-pressure
cp ../fluid-thermal/wall.vtu ../t4-to-t10/mesh.inp .
"$programs/film_and_pressure.py" wall.vtu mesh.inp thermal.inp pressure.inp --conductivity "$CONDUCTIVITY" \
    --outside-coefficient "$OUTSIDE_COEFFICIENT" --outside-temperature "$OUTSIDE_TEMPERATURE" \
    --passage-coefficient "$PASSAGE_COEFFICIENT" --passage-temperature "$PASSAGE_TEMPERATURE" \
    --outside-pressure "$OUTSIDE_PRESSURE" --passage-pressure "$PASSAGE_PRESSURE" >log
end

begin thermal
cp ../film-and-pressure/thermal.inp job.inp && cp ../t4-to-t10/mesh.inp .
OMP_NUM_THREADS=1 ccx -i job >log
clean
end

begin wall-temperature
cp ../thermal/job.frd thermal.frd && cp ../t4-to-t10/mesh.inp .
"$programs/wall_temperature.py" thermal.frd mesh.inp wall_temperature.vtu temperature.inp change >log
end

begin mechanical
cp ../job.inp ../t4-to-t10/mesh.inp ../film-and-pressure/pressure.inp ../wall-temperature/temperature.inp .
OMP_NUM_THREADS=2 ccx -i job >log
clean
end

begin fracture-mechanics
cp ../t4-to-t10/mesh.inp ../mechanical/job.frd ../film-and-pressure/pressure.inp .
"$programs/fracture_mechanics.py" mesh.inp job.frd intensities --young "$YOUNG" --poisson "$POISSON" \
    --expansion "$EXPANSION" --reference "$REFERENCE" --pressure pressure.inp >log
end

begin crack-extension
cp ../fracture-mechanics/intensities .
"$programs/crack_extension.py" intensities front measures --inner "$INNER" --outer "$OUTER" --bend "$BEND" \
    --growth "$CRACK_GROWTH" --exponent "$EXPONENT" >log
end
