package manager

import (
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

// mixedReminder is how often the log repeats that only one of MCM's processes works.
const mixedReminder = time.Minute

// standby logs for what this process stands by, when that changes.
type standby struct {
	last string
	at   time.Time
}

// tell logs why this process does not lead, as the leases were read at now. deferred is
// why it does not try to, empty if it does.
func (s *standby) tell(now time.Time, deferred string, parts []part) {
	if reason := mixed(now, parts); reason != "" {
		if reason != s.last || now.Sub(s.at) >= mixedReminder {
			klog.Background().Error(nil, "Standing by beside one of MCM's two processes: replace its image, too",
				"reason", reason)
			s.last, s.at = reason, now
		}
		return
	}
	reason := deferred
	for _, p := range parts {
		if reason == "" && p.heldAt(now) {
			reason = fmt.Sprintf("lease %s is held by %s", p.lock.LeaseMeta.Name, p.seen.HolderIdentity)
		}
	}
	if reason != "" && reason != s.last {
		klog.Background().Info("Standing by", "reason", reason)
	}
	s.last, s.at = reason, now
}

// mixed says which lease is held while another is not, as beside one of MCM's two
// processes whose other one does not run; empty if all are or none is. Processes of this
// project hold all or none.
func mixed(now time.Time, parts []part) string {
	held, free := "", ""
	for _, p := range parts {
		if p.heldAt(now) {
			held = fmt.Sprintf("lease %s is held by %s", p.lock.LeaseMeta.Name, p.seen.HolderIdentity)
		} else if p.abandonedAt(now) {
			free = p.lock.LeaseMeta.Name + " by nobody"
		}
	}
	if held == "" || free == "" {
		return ""
	}
	return held + ", " + free
}

// heldAt reports whether the lease was renewed within its duration.
func (p part) heldAt(now time.Time) bool { return p.seen.HolderIdentity != "" && p.age(now) <= 0 }

// abandonedAt reports whether the lease has had no holder for longer than a start or a
// change of leaders takes.
func (p part) abandonedAt(now time.Time) bool {
	return p.missing || p.age(now) > mixedReminder
}

// age is for how long the lease has been expired; not positive while it is valid.
func (p part) age(now time.Time) time.Duration {
	return now.Sub(p.seen.RenewTime.Time) - time.Duration(p.seen.LeaseDurationSeconds)*time.Second
}
