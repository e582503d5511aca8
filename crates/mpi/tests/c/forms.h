/* Functions that are there twice, for counts of int and, with _c, of MPI_Count: BODY is compiled for both. In it FORM(Name)
   is the function, COUNT the type of its counts, DISPLACEMENT that of its displacements, and OWN(name) a name for each. */
#define COUNT int
#define DISPLACEMENT int
#define FORM(name) MPI_##name
#define OWN(name) name
#include BODY
#undef COUNT
#undef DISPLACEMENT
#undef FORM
#undef OWN

#define COUNT MPI_Count
#define DISPLACEMENT MPI_Aint
#define FORM(name) MPI_##name##_c
#define OWN(name) name##_c
#include BODY
#undef COUNT
#undef DISPLACEMENT
#undef FORM
#undef OWN
