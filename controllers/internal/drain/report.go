package drain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// spelledOut is how many obstacles a message names.
const spelledOut = 3

// facts are what a pass has found, after its steps.
type facts struct {
	now, deadline time.Time
	timeout       time.Duration
	left          int // pods that have not gone
	obstacles     []obstacle
	departing     bool // a pod with volumes is on its way out
	next          time.Time
	notes         []string
}

// An obstacle is one reason for which a drain has not ended.
type obstacle struct{ reason, text string }

// order is how much a reason matters; the message begins with the first.
var order = [...]string{
	ReasonBudgetMisconfigured, machinev1.ReasonEvictionDenied, ReasonEvictionFailed, ReasonPodOverdue,
	machinev1.ReasonDetachingVolumes, ReasonReattachingVolumes,
}

// report says how far the drain is.
func report(f facts) Result {
	if f.left == 0 && !f.departing {
		return Result{Done: true, Reason: machinev1.ReasonDrained, Message: sentence("all pods have left", f.notes)}
	}
	r := Result{Wait: until(f), Reason: machinev1.ReasonDraining, Message: "waiting for the pods to end"}
	if reason, text := summarise(f.obstacles); reason != "" {
		r.Reason, r.Message = reason, text
	}
	if !f.now.Before(f.deadline) {
		r.Reason, r.Message = machinev1.ReasonDrainTimedOut, fmt.Sprintf("not drained within %s: %s", f.timeout, r.Message)
	}
	r.Message = sentence(r.Message, f.notes)
	return r
}

// until is how long the drain can be left alone: to the next step that time
// allows, but no longer than between two evictions.
func until(f facts) time.Duration {
	wait := retryInterval
	for _, t := range []time.Time{f.next, f.deadline} {
		if d := t.Sub(f.now); d > 0 {
			wait = min(wait, d)
		}
	}
	return wait
}

// summarise names the most serious obstacles.
func summarise(obstacles []obstacle) (reason, text string) {
	var texts []string
	for _, r := range order {
		for _, o := range obstacles {
			if o.reason != r {
				continue
			}
			if reason == "" {
				reason = r
			}
			texts = append(texts, o.text)
		}
	}
	if more := len(texts) - spelledOut; more > 0 {
		texts = append(texts[:spelledOut], fmt.Sprintf("and %d more", more))
	}
	return reason, strings.Join(texts, "; ")
}

func sentence(text string, notes []string) string {
	if more := len(notes) - spelledOut; more > 0 {
		notes = append([]string{fmt.Sprintf("%d more", more)}, notes[more:]...)
	}
	return strings.Join(append([]string{text}, notes...), "; ")
}

// facts collects what the pass has found.
func (p *pass) facts() facts {
	f := facts{
		now: p.now, timeout: p.request.Timeout, deadline: p.request.Started.Add(p.request.Timeout),
		left: len(p.pods), notes: p.memory.notes,
	}
	for _, pod := range p.pods {
		p.look(&f, pod)
	}
	for _, d := range p.memory.departures {
		if d.over {
			continue
		}
		f.departing = true
		o, by := d.obstacle(p.request.Node)
		f.soon(by)
		if o.reason != "" {
			f.obstacles = append(f.obstacles, o)
		}
	}
	return f
}

// look adds what keeps one pod.
func (p *pass) look(f *facts, pod *corev1.Pod) {
	if end := pod.DeletionTimestamp; end != nil {
		overdue := end.Add(overdueAfter)
		if f.now.Before(overdue) {
			f.soon(overdue)
			return
		}
		f.obstacles = append(f.obstacles, obstacle{
			ReasonPodOverdue,
			fmt.Sprintf("pod %s should have ended at %s", name(pod), end.UTC().Format(time.RFC3339)),
		})
		return
	}
	a := p.memory.attempts[pod.UID]
	if a == nil {
		return // a pod with volumes whose turn has not come
	}
	f.soon(a.next)
	if a.reason != "" {
		f.obstacles = append(f.obstacles, obstacle{a.reason, a.problem})
	}
}

// obstacle says what a departure waits for, and until when.
func (d *departure) obstacle(node *corev1.Node) (obstacle, time.Time) {
	if d.detached {
		return obstacle{
			ReasonReattachingVolumes,
			fmt.Sprintf("%s has left; waiting for %s at another node", d.pod, list(d.volumes)),
		}, d.reattachBy
	}
	if still := attached(node, d.volumes); len(still) > 0 {
		return obstacle{
			machinev1.ReasonDetachingVolumes,
			fmt.Sprintf("%s: waiting for %s to be detached", d.pod, list(still)),
		}, d.detachBy
	}
	return obstacle{}, d.detachBy
}

// soon makes t the next time to look, if none is earlier and t is to come.
func (f *facts) soon(t time.Time) {
	if t.After(f.now) && (f.next.IsZero() || t.Before(f.next)) {
		f.next = t
	}
}

// awaited is what the event handlers shall watch for until the next pass.
func (p *pass) awaited(result Result) awaited {
	if result.Done {
		return awaited{}
	}
	a := awaited{pods: map[types.UID]bool{}, volumes: map[string]bool{}}
	for _, pod := range p.pods {
		a.pods[pod.UID] = len(claimsOf(pod)) > 0
	}
	for _, d := range p.memory.departures {
		if d.over {
			continue
		}
		for _, v := range d.volumes {
			a.volumes[v.name] = true
		}
	}
	return a
}
