package main

import (
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// good is a history in which a pool of two with a surge of one is rolled from a
// to b, one Machine is lost and replaced, and the pool is scaled in.
func good() *history {
	const me = managerUser
	h := &history{lag: 2 * time.Second, orphanBound: time.Minute, end: at(1000)}
	h.wishes = []wish{
		{pool: "p", class: "a", replicas: 2, surge: 1, begun: at(0), done: at(1)},
		{pool: "p", class: "b", replicas: 2, surge: 1, begun: at(100), done: at(101)},
		{pool: "p", class: "b", replicas: 1, surge: 1, begun: at(400), done: at(401)},
	}
	h.lives = []life{
		{
			name: "a1", pool: "p", class: "a", owner: "1", maker: me, asked: at(2), made: at(3), ready: at(20), ender: me,
			ended: at(130), gone: true,
		},
		{
			name: "a2", pool: "p", class: "a", owner: "2", maker: me, asked: at(2), made: at(3), ready: at(20), ender: me,
			ended: at(160), gone: true,
		},
		{
			name: "b1", pool: "p", class: "b", owner: "3", maker: me, asked: at(102), made: at(103), ready: at(120), ender: me,
			ended: at(300), gone: true,
		},
		{name: "b2", pool: "p", class: "b", owner: "4", maker: me, asked: at(131), made: at(132), ready: at(150)},
		{
			name: "b3", pool: "p", class: "b", owner: "5", maker: me, asked: at(301), made: at(302), ready: at(320), ender: me,
			ended: at(403), gone: true,
		},
	}
	h.troubles = []span{{about: "b1", what: "its VM is gone", from: at(250)}}
	for _, l := range h.lives {
		v := vm{id: "vm-" + l.name, owner: l.owner, name: l.name, made: l.made.Add(time.Second)}
		if !l.ended.IsZero() {
			v.deleting, v.gone = l.ended.Add(time.Second), l.ended.Add(2*time.Second)
		}
		h.vms = append(h.vms, v)
	}
	h.quiet = []write{{at: at(990), verb: "update", target: "leases.coordination.k8s.io", name: "machine-controller"}}
	return h
}

func TestInvariantsHave(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		plant  func(*history)
		want   string // the invariant that is violated; empty is none
	}{
		"NothingToSay": {"a good run is none of a violation", func(*history) {}, ""},
		"TwoVMs": {"two VMs of one owner live at the same time", func(h *history) {
			h.vms = append(h.vms, vm{id: "vm-x", owner: "4", name: "b2", made: at(200), gone: at(210)})
		}, "one VM per Machine"},
		"SecondVMAfterTheFirst": {"the first one's end was asked for before", func(h *history) {
			h.vms[4].made = at(310)
			h.vms = append(h.vms, vm{id: "vm-x", owner: "5", name: "b3", made: at(303), deleting: at(309), gone: at(315)})
		}, ""},
		"Orphan": {"nobody has owned it for longer than the bound", func(h *history) {
			h.vms = append(h.vms, vm{id: "vm-x", name: "x", made: at(500)})
		}, "no VM without owner"},
		"OrphanBesideAnUnseenMachine": {"a Machine that nobody saw owns nothing", func(h *history) {
			h.lives = append(h.lives, life{
				name: "u", pool: "q", maker: managerUser, asked: at(960), made: at(961),
				ender: "admin", ended: at(970), gone: true,
			})
			h.wishes = append(h.wishes, wish{pool: "q", replicas: 1, begun: at(0), done: at(1)})
			h.vms = append(h.vms, vm{id: "vm-x", name: "x", made: at(500)})
		}, "no VM without owner"},
		"VMOfAMachineThatIsGone": {"its Machine went long ago", func(h *history) {
			h.vms[4].deleting, h.vms[4].gone = time.Time{}, time.Time{}
		}, "no VM without owner"},
		"YoungOrphan": {"the collector waits until it is old enough", func(h *history) {
			h.vms = append(h.vms, vm{id: "vm-x", name: "x", made: at(970)})
		}, ""},
		"OneTooMany": {"there are two already, and a surge of one is used", func(h *history) {
			h.lives = append(h.lives, life{
				name: "b9", pool: "p", class: "b", owner: "9", maker: managerUser, asked: at(110),
				made: at(111),
			})
		}, "never too many Machines"},
		"ReplacedTwice": {"both managers replace the same loss at the same time", func(h *history) {
			for i := range 2 {
				h.lives = append(h.lives, life{
					name: "b9", pool: "p", class: "b", maker: managerUser, asked: at(302),
					made: at(303 + i),
				})
			}
		}, "never too many Machines"},
		"ScaledInAMomentAgo": {"a manager may not know yet what was asked a second ago", func(h *history) {
			h.wishes[2] = wish{pool: "p", class: "b", replicas: 0, surge: 1, begun: at(300), done: at(300)}
			h.lives[3].ended, h.lives[3].ender = at(300), managerUser
		}, ""},
		"ScaledInLongAgo": {"it has to know by now", func(h *history) {
			h.wishes[2] = wish{pool: "p", class: "b", replicas: 0, surge: 1, begun: at(280), done: at(281)}
		}, "never too many Machines"},
		"ScaledInInTheDark": {"the manager that makes it was stopped since before", func(h *history) {
			h.wishes[2] = wish{pool: "p", class: "b", replicas: 0, surge: 1, begun: at(280), done: at(281)}
			h.darkness = []span{{from: at(278), until: at(300)}}
		}, ""},
		"HealthyDeleted": {"nothing was wrong with it, and nobody had asked", func(h *history) {
			h.troubles = nil
		}, "healthy Machines stay"},
		"LossOfAnother": {"the node of another Machine was lost", func(h *history) {
			h.troubles[0].about = "b2"
		}, "healthy Machines stay"},
		"LossThatHealed": {"it was well again long before", func(h *history) {
			h.troubles[0].until = at(270)
		}, "healthy Machines stay"},
		"CollectedAsGarbage": {"a collector that takes a healthy Machine was told to by us", func(h *history) {
			h.troubles, h.lives[2].ender = nil, "system:kube-controller-manager"
		}, "healthy Machines stay"},
		"DeletedByUser": {"users may", func(h *history) { h.troubles, h.lives[2].ender = nil, "admin" }, ""},
		"NeverReady":    {"it never was healthy", func(h *history) { h.troubles, h.lives[2].ready = nil, time.Time{} }, ""},
		"RolloutTooFar": {"it has the class that was asked for", func(h *history) {
			h.lives[3].ended, h.lives[3].ender = at(200), managerUser
		}, "healthy Machines stay"},
		"ScaledInTooFar": {"one Machine was to stay", func(h *history) {
			h.lives[3].ended, h.lives[3].ender = at(500), managerUser
		}, "healthy Machines stay"},
		"Write": {"nothing has changed, so there is nothing to write", func(h *history) {
			h.quiet = append(h.quiet, write{
				at: at(991), verb: "patch", target: "machines.machine.sapcloud.io/status",
				name: "b2",
			})
		}, "no write in steady state"},
		"Panic": {"a manager that panics is broken", func(h *history) {
			h.panics = []string{"manager-1.log"}
		}, "no panic"},
		"Restless": {"it never came to rest", func(h *history) {
			h.restless = []string{"pool p: 1 of 2"}
		}, "everything settles"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := good()
			c.plant(h)
			found := judge(h)
			if c.want == "" && len(found) > 0 {
				t.Errorf("%s, but: %+v", c.reason, found)
			}
			for _, v := range found {
				if v.invariant == c.want {
					return
				}
			}
			if c.want != "" {
				t.Errorf("%s: nothing says that %q is violated; found %+v", c.reason, c.want, found)
			}
		})
	}
}
