/* moldyn MM: 4*MM^3 particles in a periodic cube that attract and repel each other (Lennard-Jones), for 50 steps.
 *
 * The simulation of the paper on MPIWS (section 4.5), with the parameters of Java Grande's MolDyn, whose validation is the
 * kinetic energy that is printed. Every rank has all particles. It computes the forces between every size-th of them and
 * those behind it; the sum over all ranks is an Allreduce for each dimension. Lengths, times and energies are in the
 * potential's units.
 */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 50, SCALE_EVERY = 10, SCALE_BEFORE = 19 };
static const double DENSITY = 0.83134, TEMPERATURE = 0.722, STEP = 0.064;
/* The cube's side is this power of its volume, and not a third: so it is where the published energies come from. */
static const double ROOT = 0.3333333;

/* Particles, by dimension. A velocity is the way of one step. */
static int count;
static double side, *position[3], *velocity[3], *force[3];

/* Numbers from 0 to 1, the same everywhere. */
static double uniform(void) {
    static uint32_t seed = 1;
    seed = seed * 16807u & INT32_MAX;
    return seed * 4.656612875e-10;
}

/* Two numbers of a normal distribution (Marsaglia's polar method). */
static void normal_pair(double pair[2]) {
    double square;
    do {
        for (int i = 0; i < 2; i++) pair[i] = 2 * uniform() - 1;
        square = pair[0] * pair[0] + pair[1] * pair[1];
    } while (square >= 1);
    double factor = sqrt(-2 * log(square) / square);
    for (int i = 0; i < 2; i++) pair[i] *= factor;
}

/* Squares of all velocities. */
static double kinetic(void) {
    double sum = 0;
    for (int d = 0; d < 3; d++)
        for (int i = 0; i < count; i++) sum += velocity[d][i] * velocity[d][i];
    return sum;
}

static void scale(double factor) {
    for (int d = 0; d < 3; d++)
        for (int i = 0; i < count; i++) velocity[d][i] *= factor;
}

/* How squares of velocities, in units of time, make a temperature. */
static double temperature_of(double squares) { return 16.0 / (count - 1.0) * squares; }

/* Places of a face-centred cubic lattice of mm cells in each direction, and random velocities without a drift. */
static void begin(int mm) {
    static const double cell[4][3] = {{0, 0, 0}, {0.5, 0.5, 0}, {0.5, 0, 0.5}, {0, 0.5, 0.5}};
    double edge = side / mm;
    int at = 0;
    for (int corner = 0; corner < 4; corner++)
        for (int x = 0; x < mm; x++)
            for (int y = 0; y < mm; y++)
                for (int z = 0; z < mm; z++, at++) {
                    int cells[3] = {x, y, z};
                    for (int d = 0; d < 3; d++) position[d][at] = (cells[d] + cell[corner][d]) * edge;
                }
    for (int d = 0; d < 3; d++) {
        double drift = 0;
        for (int i = 0; i < count; i += 2) normal_pair(&velocity[d][i]);
        for (int i = 0; i < count; i++) drift += velocity[d][i];
        for (int i = 0; i < count; i++) velocity[d][i] -= drift / count;
    }
    scale(STEP * sqrt(TEMPERATURE / temperature_of(kinetic())));
}

static void move(void) {
    for (int d = 0; d < 3; d++)
        for (int i = 0; i < count; i++) {
            double *x = &position[d][i];
            *x += velocity[d][i] + force[d][i];
            if (*x < 0) *x += side;
            if (*x > side) *x -= side;
            velocity[d][i] += force[d][i];
            force[d][i] = 0;
        }
}

/* The forces on this rank's particles and on those behind them; energies[]: potential, virial, pairs within reach. */
static void compute_forces(int rank, int size, double reach, double energies[3]) {
    double half = side / 2;
    for (int i = rank; i < count; i += size) {
        double own[3] = {0};
        for (int j = i + 1; j < count; j++) {
            double apart[3], square = 0;
            for (int d = 0; d < 3; d++) {
                apart[d] = position[d][i] - position[d][j];
                if (apart[d] < -half) apart[d] += side;
                if (apart[d] > half) apart[d] -= side;
                square += apart[d] * apart[d];
            }
            if (square > reach * reach) continue;
            double r2 = 1 / square, r6 = r2 * r2 * r2, strength = r6 * r2 * (r6 - 0.5);
            energies[0] += r6 * (r6 - 1);
            energies[1] -= square * strength;
            energies[2]++;
            for (int d = 0; d < 3; d++) {
                own[d] += apart[d] * strength;
                force[d][j] -= apart[d] * strength;
            }
        }
        for (int d = 0; d < 3; d++) force[d][i] += own[d];
    }
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int mm = argc == 2 ? atoi(argv[1]) : 8;
    if (mm < 1) {
        fprintf(stderr, "moldyn MM: a number of cells from 1 is needed\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    count = 4 * mm * mm * mm;
    side = pow(count / DENSITY, ROOT);
    for (int d = 0; d < 3; d++) {
        position[d] = calloc(count, sizeof(double));
        velocity[d] = calloc(count, sizeof(double));
        force[d] = calloc(count, sizeof(double));
    }
    begin(mm);
    double squares = 0;
    for (int step = 0; step < STEPS; step++) {
        double energies[3] = {0};
        move();
        MPI_Barrier(MPI_COMM_WORLD);
        compute_forces(rank, size, mm / 4.0, energies);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int d = 0; d < 3; d++)
            MPI_Allreduce(MPI_IN_PLACE, force[d], count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int e = 0; e < 3; e++)
            MPI_Allreduce(MPI_IN_PLACE, &energies[e], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int d = 0; d < 3; d++)
            for (int i = 0; i < count; i++) {
                force[d][i] *= STEP * STEP / 2;
                velocity[d][i] += force[d][i];
            }
        squares = kinetic() / (STEP * STEP);
        if (step < SCALE_BEFORE && (step + 1) % SCALE_EVERY == 0) {
            scale(sqrt(TEMPERATURE / temperature_of(squares)));
            squares = TEMPERATURE / (16.0 / (count - 1.0));
        }
    }
    if (rank == 0) printf("ek %.13f\n", 24 * squares);
    MPI_Finalize();
    return 0;
}
