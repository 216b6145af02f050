/* lunarlander.hpp - LunarLander-v3 and LunarLanderContinuous-v3 for ppo.h (include that first). C++17; needs
   Box2D 2.4 (Debian: libbox2d-dev).

   Land between the flags, softly and upright: a lander falls from the top of the view; it has a main engine,
   two side engines and two springy legs. Terrain, bodies, engines, observation, reward and end are those of
   Gymnasium's environments of these names, with their default options.

   It is the example of an environment with more than plain bytes: the state holds a pointer to a world of
   Box2D, which open creates and close frees. Every reset builds a new world, so that an episode depends only
   on the generator at its start and on the actions, to the last bit. */

#ifndef LUNARLANDER_HPP
#define LUNARLANDER_HPP

#include "canvas.h"

#include <box2d/box2d.h>
#include <box2d/b2_time_step.h>

#include <cmath>
#include <cstdio>
#include <new>

/* --------------------------------------------------------------------------------------------------------
   1. The world: meters, kilograms, seconds, y upwards. Gymnasium uses pixels, 30 to the meter.
   -------------------------------------------------------------------------------------------------------- */

constexpr double lunarlander_scale = 30, lunarlander_fps = 50;
constexpr double lunarlander_width = 600 / lunarlander_scale, lunarlander_height = 400 / lunarlander_scale;
constexpr double lunarlander_pad = lunarlander_height / 4;  /* the height of the level part */
constexpr double lunarlander_down = 18 / lunarlander_scale; /* of a leg's hinge, from the leg's center */
constexpr int lunarlander_corners = 11;                     /* of the terrain, from left to right */

/* The random numbers at the start of an episode. */
struct lunarlander_start {
    double height[lunarlander_corners + 1]; /* of the terrain, rough: [0, lunarlander_height / 2) */
    double force[2];                        /* of the first push, N: [-1000, 1000) */
};

inline b2Vec2 lunarlander_vec(double x, double y) { return b2Vec2((float)x, (float)y); }

/* The hinge of a leg: an anchor, a motor that acts as a spring, and two limits. Gymnasium runs on Box2D 2.3,
   which solves anchor and limit together, in the steps that begin at the limit. Box2D 2.4 solves one after
   the other in every step, and for so light a leg 180 iterations are not enough: it gives way on landing.
   So this is the joint of 2.3. */
struct lunarlander_hinge : b2RevoluteJoint {
    explicit lunarlander_hinge(const b2RevoluteJoint &joint) : b2RevoluteJoint(joint) {}

    /* A world creates joints of its own classes only, so this one replaces the joint that it created. */
    static void replace(b2Joint *joint) {
        static_assert(sizeof(lunarlander_hinge) == sizeof(b2RevoluteJoint), "it must fit into its place");
        b2RevoluteJoint made = *static_cast<b2RevoluteJoint *>(joint);
        new (joint) lunarlander_hinge(made);
    }

    void InitVelocityConstraints(const b2SolverData &data) override {
        float angle = GetJointAngle();
        if (angle > m_lowerAngle) m_lowerImpulse = 0;
        if (angle < m_upperAngle) m_upperImpulse = 0;
        b2RevoluteJoint::InitVelocityConstraints(data);
    }

    /* m_angle is the angle at the start of the step. */
    bool at_lower() const { return m_angle <= m_lowerAngle; }
    bool at_upper() const { return m_angle >= m_upperAngle; }

    void SolveVelocityConstraints(const b2SolverData &data) override {
        b2Velocity &a = data.velocities[m_indexA], &b = data.velocities[m_indexB];
        float strongest = data.step.dt * m_maxMotorTorque;
        float motor = m_motorImpulse - m_axialMass * (b.w - a.w - m_motorSpeed);
        motor = b2Clamp(motor, -strongest, strongest);
        apply(a, b, b2Vec2(0, 0), motor - m_motorImpulse);
        m_motorImpulse = motor;

        b2Vec2 slip = b.v + b2Cross(b.w, m_rB) - a.v - b2Cross(a.w, m_rA);
        b2Vec2 push = m_K.Solve(-slip);
        float held = m_lowerImpulse - m_upperImpulse, turn = 0;
        if (at_lower() || at_upper()) { /* the limit pushes one way only */
            b2Vec3 mixed(-m_rA.y * m_invIA - m_rB.y * m_invIB, m_rA.x * m_invIA + m_rB.x * m_invIB, 0);
            b2Mat33 mass(b2Vec3(m_K.ex.x, m_K.ex.y, mixed.x), b2Vec3(m_K.ey.x, m_K.ey.y, mixed.y),
                         b2Vec3(mixed.x, mixed.y, m_invIA + m_invIB));
            b2Vec3 all = -mass.Solve33(b2Vec3(slip.x, slip.y, b.w - a.w));
            turn = all.z;
            push = b2Vec2(all.x, all.y);
            if (at_lower() ? held + turn < 0 : held + turn > 0) {
                turn = -held;
                push = m_K.Solve(held * b2Vec2(mixed.x, mixed.y) - slip);
            }
        }
        apply(a, b, push, turn);
        m_impulse += push;
        m_lowerImpulse = b2Max(held + turn, 0.0f);
        m_upperImpulse = b2Max(-held - turn, 0.0f);
    }

    bool SolvePositionConstraints(const b2SolverData &data) override {
        float angle = data.positions[m_indexB].a - data.positions[m_indexA].a - m_referenceAngle;
        float beyond = at_lower() ? m_lowerAngle - angle : at_upper() ? angle - m_upperAngle : 0;
        m_enableLimit = at_lower() || at_upper();
        bool solved = b2RevoluteJoint::SolvePositionConstraints(data);
        m_enableLimit = true;
        return solved && beyond <= b2_angularSlop;
    }

    void apply(b2Velocity &a, b2Velocity &b, b2Vec2 push, float turn) const {
        a.v -= m_invMassA * push;
        a.w -= m_invIA * (b2Cross(m_rA, push) + turn);
        b.v += m_invMassB * push;
        b.w += m_invIB * (b2Cross(m_rB, push) + turn);
    }
};

/* One episode's world: the moon, the lander, its legs, and their contacts. */
struct lunarlander_world : b2ContactListener {
    b2World world;
    b2Body *moon, *lander, *legs[2];
    bool touching[2] = {false, false}; /* whether the leg stands on the moon */
    bool crashed = false;              /* the lander itself touched the moon */

    explicit lunarlander_world(const lunarlander_start &start) : world(b2Vec2(0, -10)) {
        world.SetContactListener(this);
        build_moon(start.height);
        build_lander();
        lander->ApplyForceToCenter(lunarlander_vec(start.force[0], start.force[1]), true);
        build_leg(0, -1);
        build_leg(1, 1);
    }

    void build_moon(const double *rough) {
        double height[lunarlander_corners + 1];
        for (int i = 0, middle = lunarlander_corners / 2; i <= lunarlander_corners; i++)
            height[i] = i >= middle - 2 && i <= middle + 2 ? lunarlander_pad : rough[i];
        b2BodyDef body;
        b2EdgeShape edge;
        b2Vec2 left, right;
        moon = world.CreateBody(&body);
        edge.SetTwoSided(b2Vec2(0, 0), lunarlander_vec(lunarlander_width, 0));
        moon->CreateFixture(&edge, 0);
        for (int i = 0; i < lunarlander_corners; i++, left = right) {
            double before = height[i == 0 ? lunarlander_corners : i - 1];
            right = lunarlander_vec(lunarlander_width / (lunarlander_corners - 1) * i,
                                    0.33 * (before + height[i] + height[i + 1]));
            if (i == 0) continue;
            b2FixtureDef ground;
            edge.SetTwoSided(left, right);
            ground.shape = &edge;
            ground.friction = 0.1f;
            moon->CreateFixture(&ground);
        }
    }

    void build_lander() {
        const double corner[6][2] = {{-14, 17}, {-17, 0}, {-17, -10}, {17, -10}, {17, 0}, {14, 17}};
        b2Vec2 corners[6];
        b2PolygonShape hull;
        b2FixtureDef fixture;
        for (int i = 0; i < 6; i++)
            corners[i] = lunarlander_vec(corner[i][0] / lunarlander_scale, corner[i][1] / lunarlander_scale);
        hull.Set(corners, 6);
        fixture.shape = &hull;
        fixture.density = 5;
        fixture.friction = 0.1f;
        lander = add(0, 0, 0x0010, &fixture);
    }

    void build_leg(int which, int side) {
        const double away = 20 / lunarlander_scale;
        b2PolygonShape box;
        b2FixtureDef fixture;
        box.SetAsBox((float)(2 / lunarlander_scale), (float)(8 / lunarlander_scale));
        fixture.shape = &box;
        fixture.density = 1;
        legs[which] = add(-side * away, side * 0.05, 0x0020, &fixture);

        b2RevoluteJointDef hinge;
        hinge.bodyA = lander;
        hinge.bodyB = legs[which];
        hinge.referenceAngle = legs[which]->GetAngle() - lander->GetAngle();
        hinge.localAnchorB = lunarlander_vec(side * away, lunarlander_down);
        hinge.enableMotor = hinge.enableLimit = true;
        hinge.maxMotorTorque = 40;
        hinge.motorSpeed = (float)(0.3 * side);
        hinge.lowerAngle = (float)(side < 0 ? 0.9 - 0.5 : -0.9);
        hinge.upperAngle = (float)(side < 0 ? 0.9 : -0.9 + 0.5);
        lunarlander_hinge::replace(world.CreateJoint(&hinge));
    }

    /* A body at the top of the view that collides with the moon and with nothing else. */
    b2Body *add(double x, double angle, uint16 category, b2FixtureDef *fixture) {
        b2BodyDef body;
        body.type = b2_dynamicBody;
        body.position = lunarlander_vec(lunarlander_width / 2 + x, lunarlander_height);
        body.angle = (float)angle;
        fixture->filter.categoryBits = category;
        fixture->filter.maskBits = 0x0001;
        b2Body *made = world.CreateBody(&body);
        made->CreateFixture(fixture);
        return made;
    }

    void BeginContact(b2Contact *contact) override {
        if (concerns(contact, lander)) crashed = true;
        for (int i = 0; i < 2; i++)
            if (concerns(contact, legs[i])) touching[i] = true;
    }

    void EndContact(b2Contact *contact) override {
        for (int i = 0; i < 2; i++)
            if (concerns(contact, legs[i])) touching[i] = false;
    }

    static bool concerns(b2Contact *contact, const b2Body *body) {
        return contact->GetFixtureA()->GetBody() == body || contact->GetFixtureB()->GetBody() == body;
    }

    /* An engine's impulse on the lander, at a point relative to its origin but not turned with it. */
    void push(double x, double y, double at_x, double at_y) {
        b2Vec2 origin = lander->GetPosition();
        lander->ApplyLinearImpulse(lunarlander_vec(x, y), lunarlander_vec(origin.x + at_x, origin.y + at_y),
                                   true);
    }
};

/* --------------------------------------------------------------------------------------------------------
   2. The episode. All that chance decides comes in as an argument, so that an episode of Gymnasium's can be
   played again with the numbers that were drawn there.
   -------------------------------------------------------------------------------------------------------- */

/* Each 0, or its throttle: 0.5 to 1, full power. side is negative for the left engine. */
struct lunarlander_engines {
    double main, side;
};

struct lunarlander {
    lunarlander_world *world;    /* made by open */
    lunarlander_engines engines; /* as they were in the last step */
    double shaping;              /* the potential after it, whose gain is the reward */
};

/* One step. dispersion makes the engines inexact: two numbers from [-1, 1). obs [8]: position (the pad is 0,
   0), velocity, angle and angular velocity, all scaled to about 1, and whether each leg stands. */
inline void lunarlander_advance(lunarlander *s, lunarlander_engines engines, const double dispersion[2],
                                float *obs, ppo_outcome *out) {
    const double main_power = 13, main_at = 4 / lunarlander_scale;
    const double side_power = 0.6, side_away = 12 / lunarlander_scale;
    double main = engines.main, side = std::fabs(engines.side);
    b2Body *lander = s->world->lander;
    double sin_t = std::sin((double)lander->GetAngle()), cos_t = std::cos((double)lander->GetAngle());
    double d0 = dispersion[0] / lunarlander_scale, d1 = dispersion[1] / lunarlander_scale;
    if (main > 0) {
        double down = main_at + 2 * d0, x = sin_t * down - cos_t * d1, y = -cos_t * down - sin_t * d1;
        s->world->push(-x * main_power * main, -y * main_power * main, x, y);
    }
    if (side > 0) {
        double away = 3 * d1 + (engines.side < 0 ? -side_away : side_away);
        double x = sin_t * d0 - cos_t * away, y = -cos_t * d0 - sin_t * away;
        s->world->push(-x * side_power * side, -y * side_power * side, x - sin_t * 17 / lunarlander_scale,
                       y + cos_t * 14 / lunarlander_scale); /* 17 and 14: an error of the original, kept */
    }
    s->world->world.Step((float)(1 / lunarlander_fps), 180, 60);

    b2Vec2 at = lander->GetPosition(), v = lander->GetLinearVelocity();
    double half_w = lunarlander_width / 2, half_h = lunarlander_height / 2;
    double state[8] = {
        (at.x - half_w) / half_w,
        (at.y - (lunarlander_pad + lunarlander_down)) / half_h,
        v.x * half_w / lunarlander_fps,
        v.y * half_h / lunarlander_fps,
        lander->GetAngle(),
        20.0 * lander->GetAngularVelocity() / lunarlander_fps,
        s->world->touching[0] ? 1.0 : 0.0,
        s->world->touching[1] ? 1.0 : 0.0,
    };
    double shaping = -100 * std::sqrt(state[0] * state[0] + state[1] * state[1]) -
                     100 * std::sqrt(state[2] * state[2] + state[3] * state[3]) - 100 * std::fabs(state[4]) +
                     10 * state[6] + 10 * state[7];
    double fuel = main * 0.30 + side * 0.03;
    bool lost = s->world->crashed || std::fabs(state[0]) >= 1, at_rest = !lander->IsAwake();
    for (int i = 0; i < 8; i++) obs[i] = (float)state[i];
    out->reward = (float)(at_rest ? 100 : lost ? -100 : shaping - s->shaping - fuel);
    out->terminated = lost || at_rest;
    s->shaping = shaping;
    s->engines = engines;
}

/* The first observation is the one after a step without engines, as in Gymnasium. */
inline void lunarlander_begin(lunarlander *s, const lunarlander_start *start, const double dispersion[2],
                              float *obs) {
    ppo_outcome none;
    s->world->~lunarlander_world();
    new (s->world) lunarlander_world(*start);
    lunarlander_advance(s, {0, 0}, dispersion, obs, &none);
}

/* --------------------------------------------------------------------------------------------------------
   3. What ppo.h calls
   -------------------------------------------------------------------------------------------------------- */

inline void lunarlander_disperse(ppo_rng *rng, double dispersion[2]) {
    for (int i = 0; i < 2; i++) dispersion[i] = ppo_rng_range(rng, -1, 1);
}

inline void lunarlander_reset(void *state, ppo_rng *rng, float *obs) {
    lunarlander_start start;
    double dispersion[2];
    for (double &height : start.height) height = ppo_rng_range(rng, 0, (float)(lunarlander_height / 2));
    for (double &force : start.force) force = ppo_rng_range(rng, -1000, 1000);
    lunarlander_disperse(rng, dispersion);
    lunarlander_begin((lunarlander *)state, &start, dispersion, obs);
}

inline lunarlander_engines lunarlander_discrete(const ppo_action *action) {
    return {action->discrete == 2 ? 1.0 : 0.0, action->discrete == 1   ? -1.0
                                               : action->discrete == 3 ? 1.0
                                                                       : 0.0};
}

inline void lunarlander_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                             ppo_outcome *out) {
    double dispersion[2];
    lunarlander_disperse(rng, dispersion);
    lunarlander_advance((lunarlander *)state, lunarlander_discrete(action), dispersion, obs, out);
}

/* An engine runs with at least half of its power: the main one above 0, a side one beyond 0.5. */
inline lunarlander_engines lunarlander_continuous(const ppo_action *action) {
    double main = action->box[0], side = action->box[1];
    return {main > 0 ? (main + 1) * 0.5 : 0, std::fabs(side) > 0.5 ? side : 0};
}

inline void lunarlander_continuous_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs,
                                        ppo_outcome *out) {
    double dispersion[2];
    lunarlander_disperse(rng, dispersion);
    lunarlander_advance((lunarlander *)state, lunarlander_continuous(action), dispersion, obs, out);
}

/* Box2D fills a global table, without a lock, at the first contact in a program: this is one, before there
   are threads. */
inline bool lunarlander_prepare() {
    b2World world(b2Vec2(0, 0));
    b2BodyDef body;
    b2EdgeShape edge;
    b2PolygonShape box;
    edge.SetTwoSided(b2Vec2(-1, 0), b2Vec2(1, 0));
    box.SetAsBox(1, 1);
    world.CreateBody(&body)->CreateFixture(&edge, 0);
    body.type = b2_dynamicBody;
    world.CreateBody(&body)->CreateFixture(&box, 1);
    world.Step((float)(1 / lunarlander_fps), 1, 1);
    return true;
}

inline int lunarlander_open(void *state, void *user, int copy) {
    static const bool prepared = lunarlander_prepare(); /* once, in the first thread */
    (void)user, (void)copy;
    lunarlander *s = (lunarlander *)state;
    s->world = new (std::nothrow) lunarlander_world(lunarlander_start());
    return !prepared || !s->world;
}

inline void lunarlander_close(void *state) { delete ((lunarlander *)state)->world; }

/* The view: the lander (#), its legs (o), exhaust (*), the moon (.), and the flags (|). */
inline void lunarlander_draw(const void *state, FILE *file) {
    const lunarlander *s = (const lunarlander *)state;
    const b2Body *lander = s->world->lander;
    canvas picture = canvas_blank(64, 16);
    auto line = [&](b2Vec2 a, b2Vec2 b, char ch) {
        double columns = 63 / lunarlander_width, rows = 15 / lunarlander_height;
        canvas_line(&picture, a.x * columns, 15 - a.y * rows, b.x * columns, 15 - b.y * rows, ch);
    };
    auto line_on = [&](const b2Body *body, b2Vec2 a, b2Vec2 b, char ch) {
        line(body->GetWorldPoint(a), body->GetWorldPoint(b), ch);
    };

    for (const b2Fixture *f = s->world->moon->GetFixtureList(); f; f = f->GetNext()) {
        const b2EdgeShape *edge = static_cast<const b2EdgeShape *>(f->GetShape());
        line(edge->m_vertex1, edge->m_vertex2, '.');
    }
    line(b2Vec2(8, 4), b2Vec2(8, 5), '|');
    line(b2Vec2(12, 4), b2Vec2(12, 5), '|');
    for (const b2Body *leg : s->world->legs) line_on(leg, b2Vec2(0, -0.25f), b2Vec2(0, 0.25f), 'o');
    const b2PolygonShape *hull = static_cast<const b2PolygonShape *>(lander->GetFixtureList()->GetShape());
    for (int i = 0; i < hull->m_count; i++)
        line_on(lander, hull->m_vertices[i], hull->m_vertices[(i + 1) % hull->m_count], '#');
    if (s->engines.main > 0) line_on(lander, b2Vec2(0, -1), b2Vec2(0, -1.5f), '*');
    if (s->engines.side < 0) line_on(lander, b2Vec2(1, 0.4f), b2Vec2(1.3f, 0.4f), '*');
    if (s->engines.side > 0) line_on(lander, b2Vec2(-1, 0.4f), b2Vec2(-1.3f, 0.4f), '*');
    canvas_print(&picture, file);
}

inline ppo_env lunarlander_env() {
    ppo_env env = {};
    env.name = "LunarLander-v3";
    env.obs_size = 8;
    env.action_space = ppo_discrete(4); /* nothing, left engine, main engine, right engine */
    env.state_size = sizeof(lunarlander);
    env.max_steps = 1000;
    env.reset = lunarlander_reset;
    env.step = lunarlander_step;
    env.draw = lunarlander_draw;
    env.open = lunarlander_open;
    env.close = lunarlander_close;
    return env;
}

inline ppo_env lunarlander_continuous_env() {
    ppo_env env = lunarlander_env();
    env.name = "LunarLanderContinuous-v3";
    env.action_space = ppo_box(2, -1, 1); /* main engine, side engines */
    env.step = lunarlander_continuous_step;
    return env;
}

#endif
