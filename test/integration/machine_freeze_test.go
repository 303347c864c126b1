package integration

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// fill replaces the placeholders in boot data.
func fill(data []byte, token, name string) []byte {
	data = bytes.ReplaceAll(data, []byte(machinev1.BootstrapTokenPlaceholder), []byte(token))
	return bytes.ReplaceAll(data, []byte(machinev1.MachineNamePlaceholder), []byte(name))
}

// TestAPIServerFreeze stops the API server of the target cluster, then that of
// the control cluster, for far longer than a machine may be unhealthy. Nothing
// may be decided about any machine in that time, and none be replaced.
func TestAPIServerFreeze(t *testing.T) {
	t.Parallel()
	cluster.Require(t)
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	target := cluster.ForTest(t, cluster.Options{
		Manifests: []string{filepath.Join(root, "config", "samples", "sim", "bootstrap-rbac.yaml")},
	})
	su := startWithout(t, stack.Options{
		Controllers: []string{},
		Cloud: []string{"--latency=20ms", "--boot-time=500ms", "--delete-time=200ms", "--kubeconfig=" +
			target.Kubeconfig()},
	})
	su.Expect(su.Cloud.SetAccounts(t.Context(), account("frozen"))).To(Succeed())
	s := su.env(t, "frozen", nil)
	nodes, err := client.New(target.Config(), client.Options{})
	s.Expect(err).NotTo(HaveOccurred())
	s.class(func(_ *machinev1.MachineClass, secret *corev1.Secret) {
		secret.Data[machinev1.UserDataKey] = fmt.Appendf(nil, "server: %s\ncaData: %s\ntoken: %s\nnodeName: %s\n",
			target.URL(),
			base64.StdEncoding.EncodeToString(
				target.CA()), machinev1.BootstrapTokenPlaceholder, machinev1.MachineNamePlaceholder)
	})
	manager, err := s.StartManager("--target-kubeconfig="+target.Kubeconfig(),
		"--machine-safety-apiserver-statuscheck-timeout=1s", "--machine-safety-apiserver-statuscheck-period=1s",
		// The leases must outlive what the test does to the control cluster.
		"--leader-elect-lease-duration=120s", "--leader-elect-renew-deadline=100s", "--leader-elect-retry-period=1s")
	s.Expect(err).NotTo(HaveOccurred())
	const health = 10 // far longer than it takes to freeze
	d := s.pool(3, func(d *machinev1.MachineDeployment) { d.Spec.Template.Spec.MachineHealthTimeout = seconds(health) })
	machines := s.runningOn(nodes, 3)
	frozen := func(want float64) {
		s.Helper()
		s.eventually(fmt.Sprintf("metric frozen is %v", want), func(ctx context.Context) error {
			got, err := manager.Metric(ctx, "mcm_machine_controller_frozen")
			if err == nil && got != want {
				return fmt.Errorf("it is %v", got)
			}
			return err
		})
	}
	same := func(ctx context.Context) error {
		now, err := s.list(ctx)
		if err != nil {
			return err
		}
		uids := map[types.UID]bool{}
		for i := range now {
			uids[now[i].UID] = now[i].DeletionTimestamp.IsZero() && now[i].Status.CurrentStatus.Phase != machinev1.MachineFailed
		}
		for i := range machines {
			if !uids[machines[i].UID] || len(now) != len(machines) {
				return fmt.Errorf("machine %s is gone, going or failed, of %d", machines[i].Name, len(now))
			}
		}
		return nil
	}

	// All nodes get unhealthy, and in the same moment the target cluster goes.
	for i := range machines {
		s.kubelet(&machines[i], map[string]any{"ready": false})
	}
	for i := range machines {
		s.phase(&machines[i], machinev1.MachineUnknown)
	}
	s.Expect(target.SuspendAPIServer()).To(Succeed())
	frozen(1)
	s.Expect(s.Edit(t.Context(), d, func() { d.Spec.Replicas = 4 })).To(Succeed()) // nor is anything made
	made, err := s.vms(t.Context())
	s.Expect(err).NotTo(HaveOccurred())
	s.holds((health+2)*time.Second, "nothing is decided while the target cluster is away",
		func(ctx context.Context) error {
			now, err := s.list(ctx)
			if err != nil {
				return err
			}
			vms, err := s.vms(ctx)
			if err == nil && (len(vms) != len(made) || len(now) > 4) {
				return fmt.Errorf("%d VMs and %d machines", len(vms), len(now))
			}
			for i := range machines {
				for j := range now {
					if now[j].UID == machines[i].UID && (now[j].Status.CurrentStatus.Phase == machinev1.MachineFailed ||
						!now[j].DeletionTimestamp.IsZero()) {
						return fmt.Errorf("machine %s is %s", now[j].Name, describe(&now[j]))
					}
				}
			}
			return err
		})
	s.Expect(target.ResumeAPIServer()).To(Succeed())
	for i := range machines {
		s.told("HealthTimeoutReset", machines[i].Name)
		s.kubelet(&machines[i], map[string]any{"ready": true})
	}
	frozen(0)
	all := s.runningOn(nodes, 4)
	kept := 0
	for i := range all {
		for j := range machines {
			if all[i].UID == machines[j].UID {
				kept++
			}
		}
	}
	s.Expect(kept).To(Equal(3), "machines were replaced")

	// The control cluster goes.
	machines = all
	s.Expect(s.Cluster.SuspendAPIServer()).To(Succeed())
	for i := range machines {
		s.kubelet(&machines[i], map[string]any{"ready": false})
	}
	frozen(1)
	s.holds((health+2)*time.Second, "the manager keeps its leases", func(context.Context) error {
		if manager.Ended() {
			return fmt.Errorf("it has ended")
		}
		return nil
	})
	for i := range machines {
		s.kubelet(&machines[i], map[string]any{"ready": true})
	}
	s.Expect(s.Cluster.ResumeAPIServer()).To(Succeed())
	frozen(0)
	s.eventually("the control cluster answers", same)
	s.runningOn(nodes, 4)
	s.Expect(same(t.Context())).To(Succeed())
	vms, err := s.vms(t.Context())
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(vms).To(HaveLen(4), "VMs were made besides")
	for i := range machines {
		s.Expect(s.alive(t.Context(), machines[i].Name)).To(Succeed())
	}
}
