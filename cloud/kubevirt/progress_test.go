package kubevirt_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/kubevirttest"
)

// unfinished: a VM that does not run yet is waited for, however long its image takes, and a shortage counts from when
// the scheduler has said so.
func unfinished(t *testing.T, namespace makes) {
	t.Helper()
	for word, behaviour := range map[string]kubevirttest.Behaviour{
		"Provisioning":            {Volumes: kubevirttest.Importing},
		"WaitingForVolumeBinding": {Volumes: kubevirttest.WaitsForUse},
		"DataVolumeError":         {ImportError: "connection refused"},
	} {
		t.Run(word, func(t *testing.T) {
			s := newEnv(t, namespace(t, "unfinished-"+strings.ToLower(word)), class(nil))
			s.n.Behave(behaviour)
			_, err := s.create()
			must(t, err)
			for range 2 {
				must(t, s.n.Move(t.Context()))
				vm, err := s.create()
				if err != nil || vm.RetryAfter == 0 || vm.State != cloud.StatePending || vm.Reason != word {
					t.Errorf("got %+v, %v, want a wait for a VM that is %s", vm, err, word)
				}
				s.now = s.now.Add(time.Hour)
			}
			s.n.Behave(kubevirttest.Behaviour{NoNode: "0/3 nodes are available: 3 Insufficient memory"})
			must(t, s.n.Move(t.Context()))
			if vm, err := s.create(); err != nil || vm.RetryAfter == 0 {
				t.Errorf("found no node just now: got %+v, %v, want a wait", vm, err)
			}
			s.now = s.now.Add(3 * time.Minute)
			if _, err := s.create(); cloud.CodeOf(err) != cloud.Exhausted || !strings.Contains(err.Error(), "memory") {
				t.Errorf("found no node for minutes: got %v, want it exhausted, with the scheduler's words", err)
			}
			s.n.Behave(kubevirttest.Behaviour{})
			must(t, s.n.Move(t.Context()))
			if vm := s.running(); vm.State != cloud.StateRunning {
				t.Errorf("got %+v, want it running", vm)
			}
		})
	}
}

// quota: what the API server refuses to KubeVirt or CDI for a quota is a shortage, and no failure of the VM.
func quota(t *testing.T, namespace makes) {
	t.Helper()
	const claim = `persistentvolumeclaims "w-1" is forbidden: exceeded quota: q, requested: requests.storage=20Gi`
	const pod = `pods "virt-launcher-w-1-x" is forbidden: exceeded quota: q, requested: requests.memory=5Gi`
	for name, behaviour := range map[string]kubevirttest.Behaviour{
		"volume": {VolumeQuota: claim}, "pod": {PodQuota: pod},
	} {
		for _, strategy := range []string{"Always", "RerunOnFailure", "Once"} {
			t.Run(name+" "+strategy, func(t *testing.T) {
				space := "quota-" + name + "-" + strings.ToLower(strategy)
				s := newEnv(t, namespace(t, space), class(map[string]any{"runStrategy": strategy}))
				s.n.Behave(behaviour)
				_, err := s.create()
				must(t, err)
				must(t, s.n.Move(t.Context()))
				_, err = s.create()
				e, ok := errors.AsType[*cloud.Error](err)
				if !ok || e.Code != cloud.Exhausted || e.Reason != "ExceededQuota" || e.Offering == nil ||
					*e.Offering != (cloud.Offering{InstanceType: "small"}) || !strings.Contains(err.Error(), "exceeded quota") {
					t.Errorf("got %v, want an exhausted instance type of reason ExceededQuota", err)
				}
				ref := cloud.Ref{Name: "w-1", OwnerID: "o-1", Class: s.class}
				if vm, err := s.account.Get(t.Context(), ref); err != nil || vm.State != cloud.StatePending {
					t.Errorf("get: got %+v, %v, want it pending", vm, err)
				}
				s.n.Behave(kubevirttest.Behaviour{})
				must(t, s.n.Move(t.Context()))
				if vm := s.running(); vm.State != cloud.StateRunning {
					t.Errorf("got %+v, want it running once the quota has room", vm)
				}
			})
		}
	}
}

// dataVolumeError: an importer that failed is started again; a volume that failed is final, and a person reads why.
func dataVolumeError(s *env) {
	s.n.Behave(kubevirttest.Behaviour{ImportError: "status 404 for linux.img"})
	_, err := s.create()
	must(s, err)
	must(s, s.n.Move(s.Context()))
	ref := cloud.Ref{Name: "w-1", OwnerID: "o-1", Class: s.class}
	vm, err := s.account.Get(s.Context(), ref)
	if err != nil || vm.State != cloud.StatePending || !strings.Contains(vm.Message, "404") {
		s.Errorf("get: got %+v, %v, want it pending with the importer's words", vm, err)
	}
	s.n.Behave(kubevirttest.Behaviour{Volumes: kubevirttest.ImportFailed})
	must(s, s.n.Move(s.Context()))
	if vm, err = s.account.Get(s.Context(), ref); err != nil || vm.State != cloud.StateFailed || vm.Message == "" {
		s.Errorf("get: got %+v, %v, want it failed, and a message", vm, err)
	}
	if vm, err = s.create(); err != nil || vm.RetryAfter != 0 || vm.State != cloud.StateFailed {
		s.Errorf("create: got %+v, %v, want a finished VM that failed", vm, err)
	}
}

// ended: whether a VM whose guest has ended runs again, and what a reboot does about it, is decided by its runStrategy.
func ended(t *testing.T, namespace makes) {
	t.Helper()
	for _, c := range []struct {
		reason, strategy, phase string
		state                   cloud.State
		code                    cloud.Code // of a reboot; Unknown if it starts the VM
	}{
		{"KubeVirt has started it again", "Always", "Succeeded", cloud.StateRunning, 0},
		{"KubeVirt has started it again", "RerunOnFailure", "Failed", cloud.StateRunning, 0},
		{"it was shut down", "RerunOnFailure", "Succeeded", cloud.StateStopped, 0},
		{"KubeVirt never starts it again", "Once", "Succeeded", cloud.StateStopped, cloud.Invalid},
		{"KubeVirt never starts it again", "Once", "Failed", cloud.StateStopped, cloud.Invalid},
	} {
		t.Run(c.strategy+" "+c.phase, func(t *testing.T) {
			space := "ended-" + strings.ToLower(c.strategy+"-"+c.phase)
			s := newEnv(t, namespace(t, space), class(map[string]any{"runStrategy": c.strategy}))
			s.running()
			must(t, s.n.End(t.Context(), "w-1", c.phase))
			ref := cloud.Ref{Name: "w-1", OwnerID: "o-1", Class: s.class}
			if vm, err := s.account.Get(t.Context(), ref); err != nil || vm.State != c.state {
				t.Errorf("%s: got %+v, %v, want it %v", c.reason, vm, err, c.state)
			}
			err := cloud.Reboot(t.Context(), s.account, ref)
			if c.code != cloud.Unknown {
				if cloud.CodeOf(err) != c.code {
					t.Errorf("%s: reboot: got %v, want code %v", c.reason, err, c.code)
				}
				return
			}
			must(t, err)
			must(t, s.n.Move(t.Context()))
			if vm, err := s.account.Get(t.Context(), ref); err != nil || vm.State != cloud.StateRunning {
				t.Errorf("%s: after a reboot: got %+v, %v, want it running", c.reason, vm, err)
			}
		})
	}
	t.Run("Backoff", func(t *testing.T) {
		s := newEnv(t, namespace(t, "ended-backoff"), class(nil))
		s.running()
		must(t, s.n.Set(t.Context(), "w-1", "CrashLoopBackOff"))
		err := cloud.Reboot(t.Context(), s.account, cloud.Ref{Name: "w-1", OwnerID: "o-1", Class: s.class})
		e, ok := errors.AsType[*cloud.Error](err)
		if !ok || e.Code != cloud.Unavailable || e.Reason != cloud.ReasonVMBusy {
			t.Errorf("reboot of a VM that KubeVirt starts soon: got %v, want it busy", err)
		}
	})
}
