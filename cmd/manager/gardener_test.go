package main

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestGardenersPod: Gardener's two containers, each of them this manager, started in
// both orders and each killed once.
func TestGardenersPod(t *testing.T) {
	t.Parallel()
	gardenersPorts.Lock()
	t.Cleanup(gardenersPorts.Unlock) // after the processes have ended
	p := newPod(t)
	replicas := 0
	for _, order := range [][]string{{firstContainer, sidecar}, {sidecar, firstContainer}} {
		for _, name := range order {
			p.start(name)
		}
		for _, killed := range []string{"", firstContainer, sidecar} {
			if killed != "" {
				p.kill(killed)
				p.start(killed) // as the kubelet does
			}
			replicas++
			p.requireWork(sidecar, replicas)
			p.requireAlive()
		}
		said := p.containers[firstContainer].Output()
		if !strings.Contains(said, `"Standing by" reason="the provider sidecar`) {
			t.Errorf("the container that stands by does not say so: %s", said)
		}
		p.requireNoSecrets()
		for _, name := range order {
			if err := p.containers[name].Stop(time.Minute); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestGardenersSidecarIsAway: the first container works while the sidecar is away, and
// lets it lead again.
func TestGardenersSidecarIsAway(t *testing.T) {
	t.Parallel()
	gardenersPorts.Lock()
	t.Cleanup(gardenersPorts.Unlock) // after the processes have ended
	p := newPod(t)
	quick := []string{
		"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms",
	}
	p.start(sidecar, quick...)
	p.start(firstContainer, quick...)
	p.requireWork(sidecar, 1)
	p.kill(sidecar)
	p.requireWork(firstContainer, 2)
	p.await(10*time.Second, func(ctx context.Context) string {
		if !strings.Contains(p.get(ctx, firstContainer, "/metrics"), "mcm_machine_info{") {
			return "metrics of machines are nowhere while the sidecar is away"
		}
		return ""
	})
	p.start(sidecar, quick...)
	p.requireWork(sidecar, 3)
	p.await(time.Minute, func(ctx context.Context) string {
		if state := p.get(ctx, firstContainer, "/leader-election"); state != "standing by" {
			return "the first container is " + state
		}
		return ""
	})
	p.requireAlive()
}

// TestDefaultPortIsTaken: a manager for all that was not told its ports starts beside
// whoever has the second one, and serves everything on the first.
func TestDefaultPortIsTaken(t *testing.T) {
	t.Parallel()
	gardenersPorts.Lock()
	t.Cleanup(gardenersPorts.Unlock) // after the processes have ended
	p := newPod(t)
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":"+p.ports[sidecar])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	p.args[firstContainer] = slices.DeleteFunc(p.args[firstContainer], func(arg string) bool {
		return strings.HasPrefix(arg, "--port=")
	})
	p.start(firstContainer)
	p.requireMachines(1)
	p.await(10*time.Second, func(ctx context.Context) string {
		body := p.get(ctx, firstContainer, "/metrics")
		for _, metric := range []string{"mcm_machine_set_info{", "mcm_machine_info{"} {
			if !strings.Contains(body, metric) {
				return metric + " is missing"
			}
		}
		return ""
	})
}
