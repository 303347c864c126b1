package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

const (
	managerUser = stack.ManagerUser

	// The managers' timeouts are so short that a run of minutes goes through all
	// of them.
	leaseDuration   = 6 * time.Second
	creationTimeout = 60 * time.Second
	healthTimeout   = 20 * time.Second

	// lag is how old a manager's knowledge may be while nothing is wrong, on a
	// machine that does other things too.
	lag = 5 * time.Second
	// takeover is how long there may be no leader after one was killed.
	takeover = leaseDuration + 4*time.Second
	// orphanBound is the age from which on an orphan is removed, two looks, and
	// a longer timeout. See docs/operations.md.
	orphanBound = 8 * time.Minute

	usualLatency = "20ms"

	apiServerAway = "the API server is away"
)

var managerFlags = []string{
	"--leader-elect-lease-duration=" + leaseDuration.String(), "--leader-elect-renew-deadline=4s",
	"--leader-elect-retry-period=500ms",
	"--machine-creation-timeout=" + creationTimeout.String(), "--machine-health-timeout=" + healthTimeout.String(),
	"--machine-drain-timeout=20s", "--machine-safety-orphan-vms-period=15s", "--machine-safety-overshooting-period=10s",
	"--machine-safety-apiserver-statuscheck-timeout=8s", "--machine-safety-apiserver-statuscheck-period=10s",
	"--machine-safety-outage-limit=90s", "--resource-exhausted-retry=5s", "--v=1",
}

// chaos is a run: the processes, what is done to them, and what is remembered of
// that.
type chaos struct {
	*stack.Stack
	options  options
	random   *rand.Rand
	observer *observer

	seats   [2]seat
	apiDown bool
	later   []task
	strays  int

	pools    []string
	wishes   []wish
	darkness []span
	losses   []loss
	troubles []span
	quiet    []write
	restless []string

	kills, faults int
}

// seat is where a manager runs; there is always one, or soon.
type seat struct {
	manager *stack.Manager
	stopped bool
	due     time.Time // when it is started again
}

// task is something that is done later.
type task struct {
	at time.Time
	do func(context.Context) error
}

// start starts everything but the managers.
func start(ctx context.Context, o options) (*chaos, error) {
	binaries, err := stack.Build(ctx)
	if err != nil {
		return nil, err
	}
	c := &chaos{options: o, random: rand.New(rand.NewPCG(o.seed, 0))}
	c.Stack, err = stack.Start(ctx, stack.Options{
		Controllers:            cluster.Controllers("node-lifecycle-controller"),
		ControllerManagerFlags: []string{"--node-monitor-grace-period=40s", "--node-monitor-period=5s"},
		Audit:                  true, Binaries: binaries, Dir: o.dir, Manager: managerFlags,
		Cloud: []string{
			"--latency=" + usualLatency, "--boot-time=1s", "--delete-time=1s", "--lease-period=5s",
			"--settle=500ms", fmt.Sprintf("--seed=%d", o.seed),
		},
	})
	if err != nil {
		return nil, err
	}
	c.observer, err = newObserver(c.Stack, filepath.Join(o.dir, "journal.jsonl"))
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// stop ends all processes, also those that stand.
func (c *chaos) stop() error { return errors.Join(c.Stop(), c.observer.file.Close()) }

func (c *chaos) say(format string, args ...any) { c.observer.note(true, format, args...) }

// after plans something, which is done at the end of the storm at the latest.
func (c *chaos) after(d time.Duration, do func(context.Context) error) {
	c.later = append(c.later, task{time.Now().Add(d), do})
}

// perform does what is due; everything if all.
func (c *chaos) perform(ctx context.Context, all bool) error {
	now := time.Now()
	due := slices.DeleteFunc(slices.Clone(c.later), func(t task) bool { return !all && t.at.After(now) })
	c.later = slices.DeleteFunc(c.later, func(t task) bool { return all || !t.at.After(now) })
	slices.SortStableFunc(due, func(a, b task) int { return a.at.Compare(b.at) })
	for _, t := range due {
		if err := t.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// between draws a time.
func (c *chaos) between(from, to time.Duration) time.Duration {
	return from + time.Duration(c.random.Int64N(int64(to-from)))
}

func (c *chaos) dark(what string, from, until time.Time) {
	c.darkness = append(c.darkness, span{what: what, from: from, until: until})
}

// tend starts managers where none is.
func (c *chaos) tend() error {
	now := time.Now()
	for i := range c.seats {
		s := &c.seats[i]
		switch {
		case s.manager != nil && s.manager.Ended():
			c.say("%s has ended by itself", s.manager.Name)
			c.dark(s.manager.Name+" has ended", now.Add(-lag), now.Add(takeover))
			s.manager, s.stopped, s.due = nil, false, now.Add(time.Second)
		case s.manager == nil && !now.Before(s.due):
			m, err := c.StartManager()
			if err != nil {
				return err
			}
			s.manager = m
			c.say("%s starts as process %d", m.Name, m.PID())
		}
	}
	return nil
}

func (c *chaos) killManager(context.Context) (bool, error) {
	s := &c.seats[c.random.IntN(len(c.seats))]
	pause := c.between(0, 8*time.Second)
	if s.manager == nil || s.manager.Ended() {
		return false, nil
	}
	c.say("kill -9 %s", s.manager.Name)
	now := time.Now()
	if err := s.manager.Kill(); err != nil {
		return false, err
	}
	c.kills++
	c.dark(s.manager.Name+" was killed", now, now.Add(takeover))
	s.manager, s.stopped, s.due = nil, false, now.Add(pause)
	return true, nil
}

// freezeManager stops a manager for longer than its lease. When it goes on it
// believes for a moment that it still leads.
func (c *chaos) freezeManager(context.Context) (bool, error) {
	s := &c.seats[c.random.IntN(len(c.seats))]
	pause := c.between(leaseDuration+time.Second, 3*leaseDuration)
	if s.manager == nil || s.stopped || s.manager.Ended() {
		return false, nil
	}
	m, began := s.manager, time.Now()
	c.say("SIGSTOP %s for %s", m.Name, pause.Round(time.Millisecond))
	if err := send(m, syscall.SIGSTOP); err != nil {
		return false, err
	}
	c.faults++
	s.stopped = true
	index := len(c.darkness)
	c.dark(m.Name+" stands", began, time.Time{})
	c.after(pause, func(context.Context) error {
		c.darkness[index].until = time.Now()
		if s.manager != m || m.Ended() {
			return nil // killed meanwhile
		}
		c.say("SIGCONT %s", m.Name)
		s.stopped = false
		return send(m, syscall.SIGCONT)
	})
	return true, nil
}

func send(m *stack.Manager, s syscall.Signal) error {
	if err := syscall.Kill(m.PID(), s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s: %w", m.Name, err)
	}
	return nil
}

// loseAPIServer kills or stops the API server for a while.
func (c *chaos) loseAPIServer(kill bool) action {
	what, lose, back := "suspend", c.Cluster.SuspendAPIServer, func(context.Context) error {
		return c.Cluster.ResumeAPIServer()
	}
	if kill {
		what, lose, back = "kill -9", c.Cluster.KillAPIServer, c.Cluster.StartAPIServer
	}
	return func(context.Context) (bool, error) {
		pause := c.between(time.Second, 14*time.Second)
		if c.apiDown {
			return false, nil
		}
		c.say("%s the API server for %s", what, pause.Round(time.Millisecond))
		began := time.Now()
		if err := lose(); err != nil {
			return false, err
		}
		c.apiDown = true
		if kill {
			c.kills++
		} else {
			c.faults++
		}
		index := len(c.darkness)
		c.dark(apiServerAway, began, time.Time{})
		c.after(pause, func(ctx context.Context) error {
			if !c.darkness[index].until.IsZero() {
				return nil // it was restored meanwhile
			}
			c.say("the API server is back")
			if err := back(ctx); err != nil {
				return err
			}
			c.darkness[index].until, c.apiDown = time.Now().Add(takeover), false
			return nil
		})
		return true, nil
	}
}

// spot returns a class's spec with spot VMs.
func spot(spec []byte) ([]byte, error) {
	var fields map[string]any
	if err := json.Unmarshal(spec, &fields); err != nil {
		return nil, err
	}
	fields["spot"] = true
	return json.Marshal(fields)
}
