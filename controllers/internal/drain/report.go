package drain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// maxNamed is how many obstacles a message names.
const maxNamed = 3

// progress is what a pass has found, after its steps.
type progress struct {
	now, deadline time.Time
	timeout       time.Duration
	left          int // pods that still exist
	obstacles     []obstacle
	departing     bool // the drain waits for a pod with volumes, or for its volumes
	next          time.Time
	notes         []string
}

// An obstacle is one reason why the drain is not complete.
type obstacle struct{ reason, text string }

// order has the reasons by severity; the message begins with the most severe. Those that
// need somebody to act come first, so that others do not hide them.
var order = [...]string{
	ReasonBudgetMisconfigured, ReasonEvictionFailed, ReasonPodOverdue,
	machinev1.ReasonEvictionDenied, machinev1.ReasonDetachingVolumes, ReasonReattachingVolumes,
}

// report returns the Result for the progress of a drain.
func report(f progress) Result {
	if f.left == 0 && !f.departing {
		return Result{Done: true, Reason: machinev1.ReasonDrained, Message: withNotes("all pods have terminated", f.notes)}
	}
	r := Result{Wait: nextPass(f), Reason: machinev1.ReasonDraining, Message: "waiting for pods to terminate"}
	if reason, text := summarise(f.obstacles); reason != "" {
		r.Reason, r.Message = reason, text
	}
	if !f.now.Before(f.deadline) {
		r.Reason, r.Message = machinev1.ReasonDrainTimedOut, fmt.Sprintf("not drained within %s: %s", f.timeout, r.Message)
	}
	r.Message = withNotes(r.Message, f.notes)
	return r
}

// nextPass returns how long the drain can wait for the next pass: until a step is due,
// but no longer than the interval between two evictions.
func nextPass(f progress) time.Duration {
	wait := retryInterval
	for _, t := range []time.Time{f.next, f.deadline} {
		if d := t.Sub(f.now); d > 0 {
			wait = min(wait, d)
		}
	}
	return wait
}

// summarise returns the most severe reason, and a text that names the obstacles.
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
	if more := len(texts) - maxNamed; more > 0 {
		texts = append(texts[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return reason, strings.Join(texts, "; ")
}

func withNotes(text string, notes []string) string {
	if more := len(notes) - maxNamed; more > 0 {
		notes = append([]string{fmt.Sprintf("%d more", more)}, notes[more:]...)
	}
	return strings.Join(append([]string{text}, notes...), "; ")
}

// progress collects what the pass has found.
func (p *pass) progress() progress {
	f := progress{
		now: p.now, timeout: p.request.Timeout, deadline: p.request.Started.Add(p.request.Timeout),
		left: len(p.pods), notes: p.state.notes,
	}
	for _, pod := range p.pods {
		p.addPod(&f, pod)
	}
	for _, d := range p.state.departures {
		if d.complete {
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

// addPod adds what the drain waits for with one pod.
func (p *pass) addPod(f *progress, pod *corev1.Pod) {
	if end := pod.DeletionTimestamp; end != nil {
		overdue := end.Add(overdueAfter)
		if f.now.Before(overdue) {
			f.soon(overdue)
			return
		}
		f.obstacles = append(f.obstacles, obstacle{
			ReasonPodOverdue,
			fmt.Sprintf("pod %s has not terminated by the end of its grace period, %s", name(pod),
				end.UTC().Format(time.RFC3339)),
		})
		return
	}
	a := p.state.attempts[pod.UID]
	if a == nil {
		return // a pod with volumes that is evicted later
	}
	f.soon(a.next)
	if a.reason != "" {
		f.obstacles = append(f.obstacles, obstacle{a.reason, a.problem})
	}
}

// obstacle returns what a departure waits for, and until when.
func (d *departure) obstacle(node *corev1.Node) (obstacle, time.Time) {
	if d.detached {
		return obstacle{
			ReasonReattachingVolumes,
			fmt.Sprintf("%s has terminated; waiting for %s to be attached to another node", d.pod, list(d.volumes)),
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

// soon makes t the time of the next pass, if t is in the future and no other time is
// earlier.
func (f *progress) soon(t time.Time) {
	if t.After(f.now) && (f.next.IsZero() || t.Before(f.next)) {
		f.next = t
	}
}

// awaited returns the pods and volumes whose events begin the next pass early.
func (p *pass) awaited(result Result) awaited {
	if result.Done {
		return awaited{}
	}
	a := awaited{pods: map[types.UID]bool{}, volumes: map[string]bool{}}
	for _, pod := range p.pods {
		a.pods[pod.UID] = len(claimsOf(pod)) > 0
	}
	for _, d := range p.state.departures {
		if d.complete {
			continue
		}
		for _, v := range d.volumes {
			a.volumes[v.name] = true
		}
	}
	return a
}
