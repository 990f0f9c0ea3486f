// barnes: gravity between bodies by the Barnes-Hut method. Each time step builds an octree whose cells and leaves are
// allocated one by one, walks it once for each body, and frees it: few allocations for the arithmetic, as in solvers.
// J. Barnes, P. Hut: A hierarchical O(n log n) force-calculation algorithm. Nature 324, 1986.
// barnes [scale]: scale multiplies the time steps (9 of 20000 bodies).
#include "load.h"

enum { BODIES = 20000, LEAF_BODIES = 4, MAX_DEPTH = 64 };
static const double opening_angle = 1.0; // a cell is opened if its side is more than this part of its distance
static const double softening2 = 1e-4;   // keeps close encounters finite
static const double time_step = 1e-3;

struct body {
    double at[3], velocity[3], force[3];
    double mass;
};

// A node is a cell or a leaf; `is_cell` says which of the two structures below holds it.
struct node {
    double mass;
    double centre[3]; // of mass, after summarize()
    bool is_cell;
};

struct leaf {
    struct node node;
    int count; // at most LEAF_BODIES
    struct body *bodies[LEAF_BODIES];
};

struct cell {
    struct node node;
    struct node *children[8]; // by octant, NULL if empty
};

// The cube of space that a node stands for; not stored in the node, as the way down to it says it.
struct cube {
    double middle[3], half;
};

static int octant_of(const struct cube *cube, const double at[3]) {
    return (at[0] >= cube->middle[0]) | (at[1] >= cube->middle[1]) << 1 | (at[2] >= cube->middle[2]) << 2;
}

static struct cube octant_cube(const struct cube *cube, int octant) {
    struct cube part = {.half = cube->half / 2};
    for (int d = 0; d < 3; d++) part.middle[d] = cube->middle[d] + (octant >> d & 1 ? part.half : -part.half);
    return part;
}

static struct node *leaf_new(struct body *body) {
    struct leaf *leaf = load_alloc(sizeof *leaf);
    leaf->node.is_cell = false;
    leaf->count = 1;
    leaf->bodies[0] = body;
    return &leaf->node;
}

static struct node *insert(struct node *node, const struct cube *cube, struct body *body, int depth);

static void insert_below(struct cell *cell, const struct cube *cube, struct body *body, int depth) {
    const int octant = octant_of(cube, body->at);
    const struct cube part = octant_cube(cube, octant);
    cell->children[octant] = insert(cell->children[octant], &part, body, depth + 1);
}

// Returns the node that now stands for the cube: a full leaf is replaced by a cell.
static struct node *insert(struct node *node, const struct cube *cube, struct body *body, int depth) {
    if (depth > MAX_DEPTH) load_fail("bodies too close together, depth", (unsigned)depth);
    if (node == NULL) return leaf_new(body);
    if (node->is_cell) {
        insert_below((struct cell *)node, cube, body, depth);
        return node;
    }
    struct leaf *leaf = (struct leaf *)node;
    if (leaf->count < LEAF_BODIES) {
        leaf->bodies[leaf->count++] = body;
        return node;
    }
    struct cell *cell = load_alloc(sizeof *cell);
    cell->node.is_cell = true;
    for (int i = 0; i < 8; i++) cell->children[i] = NULL;
    for (int i = 0; i < LEAF_BODIES; i++) insert_below(cell, cube, leaf->bodies[i], depth);
    insert_below(cell, cube, body, depth);
    free(leaf);
    return &cell->node;
}

static void add_mass(struct node *node, const double at[3], double mass) {
    node->mass += mass;
    for (int d = 0; d < 3; d++) node->centre[d] += mass * at[d];
}

// Sets mass and centre of mass of the node and of all below it.
static void summarize(struct node *node) {
    node->mass = node->centre[0] = node->centre[1] = node->centre[2] = 0;
    if (node->is_cell) {
        struct cell *cell = (struct cell *)node;
        for (int i = 0; i < 8; i++) {
            if (cell->children[i] == NULL) continue;
            summarize(cell->children[i]);
            add_mass(node, cell->children[i]->centre, cell->children[i]->mass);
        }
    } else {
        struct leaf *leaf = (struct leaf *)node;
        for (int i = 0; i < leaf->count; i++) add_mass(node, leaf->bodies[i]->at, leaf->bodies[i]->mass);
    }
    for (int d = 0; d < 3; d++) node->centre[d] /= node->mass;
}

static void tree_delete(struct node *node) {
    if (node == NULL) return;
    if (node->is_cell)
        for (int i = 0; i < 8; i++) tree_delete(((struct cell *)node)->children[i]);
    free(node);
}

static void attract(struct body *body, const double at[3], double mass) {
    double away[3], distance2 = softening2;
    for (int d = 0; d < 3; d++) {
        away[d] = at[d] - body->at[d];
        distance2 += away[d] * away[d];
    }
    const double pull = mass / (distance2 * sqrt(distance2));
    for (int d = 0; d < 3; d++) body->force[d] += pull * away[d];
}

static void add_force(struct body *body, const struct node *node, double side) {
    if (!node->is_cell) {
        const struct leaf *leaf = (const struct leaf *)node;
        for (int i = 0; i < leaf->count; i++)
            if (leaf->bodies[i] != body) attract(body, leaf->bodies[i]->at, leaf->bodies[i]->mass);
        return;
    }
    double distance2 = 0;
    for (int d = 0; d < 3; d++) distance2 += (node->centre[d] - body->at[d]) * (node->centre[d] - body->at[d]);
    if (side * side < opening_angle * opening_angle * distance2) {
        attract(body, node->centre, node->mass);
        return;
    }
    const struct cell *cell = (const struct cell *)node;
    for (int i = 0; i < 8; i++)
        if (cell->children[i] != NULL) add_force(body, cell->children[i], side / 2);
}

static void step(struct body *const *bodies) {
    struct cube space = {.half = 0};
    for (int i = 0; i < BODIES; i++)
        for (int d = 0; d < 3; d++) space.half = fmax(space.half, fabs(bodies[i]->at[d]));
    struct node *root = NULL;
    for (int i = 0; i < BODIES; i++) root = insert(root, &space, bodies[i], 0);
    summarize(root);
    for (int i = 0; i < BODIES; i++) {
        memset(bodies[i]->force, 0, sizeof bodies[i]->force);
        add_force(bodies[i], root, 2 * space.half);
    }
    tree_delete(root);
    for (int i = 0; i < BODIES; i++) {
        for (int d = 0; d < 3; d++) {
            bodies[i]->velocity[d] += time_step * bodies[i]->force[d];
            bodies[i]->at[d] += time_step * bodies[i]->velocity[d];
        }
    }
}

// A ball whose density falls with the square of the distance: the tree is deep in the middle, as in a galaxy.
static struct body *body_new(struct rng *rng) {
    struct body *body = load_alloc(sizeof *body);
    double length2;
    do {
        length2 = 0;
        for (int d = 0; d < 3; d++) {
            body->at[d] = 2 * rng_unit(rng) - 1;
            length2 += body->at[d] * body->at[d];
        }
    } while (length2 > 1 || length2 < 1e-6);
    const double radius = rng_unit(rng) / sqrt(length2);
    for (int d = 0; d < 3; d++) {
        body->at[d] *= radius;
        body->velocity[d] = 0.2 * (rng_unit(rng) - 0.5);
    }
    body->mass = 1.0 / BODIES;
    return body;
}

int main(int argc, char **argv) {
    const struct load load = load_begin(argc, argv, "barnes", 0);
    const uint64_t steps = load_scaled(&load, 9);
    struct rng rng = rng_stream(0);
    struct body **bodies = load_alloc(BODIES * sizeof *bodies);
    for (int i = 0; i < BODIES; i++) bodies[i] = body_new(&rng);
    for (uint64_t n = 0; n < steps; n++) step(bodies);
    uint64_t sum = 0;
    for (int i = 0; i < BODIES; i++) {
        for (int d = 0; d < 3; d++) {
            uint64_t bits;
            memcpy(&bits, &bodies[i]->at[d], sizeof bits);
            sum = load_mix(sum + bits);
        }
        free(bodies[i]);
    }
    free(bodies);
    return load_end(&load, sum);
}
