package capi

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	kcpv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// initialized waits until kubeadm init has made a control plane.
func (k *kubeadmGuests) initialized(t *testing.T, began time.Time) {
	t.Helper()
	k.await(t, began, "control plane: the server is ACTIVE in Nova", func(ctx context.Context) error {
		servers, err := k.cloud.Project.Live(ctx)
		if err != nil || len(servers) != 1 || servers[0].Status != "ACTIVE" {
			return fmt.Errorf("servers %+v, %w", servers, err)
		}
		return nil
	})
	k.await(t, began, "control plane: the server is a member of the load balancer", func(context.Context) error {
		if n := len(k.octavia.Members(apiServerPool)); n != 1 {
			return fmt.Errorf("%d members", n)
		}
		return nil
	})
	k.await(t, began, "control plane: the kubeconfig is there", func(ctx context.Context) error {
		return k.connect(ctx, t.TempDir())
	})
	k.await(t, began, "control plane: the API server answers through the load balancer", func(ctx context.Context) error {
		return k.nodes.List(ctx, &corev1.NamespaceList{})
	})
	go k.playCloudController(t.Context())
	k.await(t, began, "control plane: kubeadm init has registered the Node", func(ctx context.Context) error {
		var nodes corev1.NodeList
		if err := k.nodes.List(ctx, &nodes); err != nil || len(nodes.Items) == 0 {
			return fmt.Errorf("%d Nodes, %w", len(nodes.Items), err)
		}
		return nil
	})
	k.await(t, began, "KubeadmControlPlane is initialized", func(ctx context.Context) error {
		kcp, err := k.controlPlane(ctx)
		if err == nil && (kcp.Status.Initialization.ControlPlaneInitialized == nil ||
			!*kcp.Status.Initialization.ControlPlaneInitialized) {
			err = errors.New("it is not")
		}
		return err
	})
}

// connect makes a client of the cluster, from the kubeconfig that KubeadmControlPlane has made.
func (k *kubeadmGuests) connect(ctx context.Context, dir string) error {
	secret := &corev1.Secret{}
	if err := k.m.cl.Get(ctx, k.key(k.name+"-kubeconfig"), secret); err != nil {
		return err
	}
	loaded, err := clientcmd.Load(secret.Data["value"])
	if err != nil {
		return err
	}
	for _, c := range loaded.Clusters {
		c.ProxyURL = k.proxy
	}
	k.kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*loaded, k.kubeconfig); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", k.kubeconfig)
	if err != nil {
		return err
	}
	// Whoever waits asks 20 times a second, which an API server on an emulated processor does not
	// survive: it has a minute for its first steps.
	config.QPS, config.Burst = 0.5, 3
	k.nodes, err = client.New(config, client.Options{Scheme: k.m.cl.Scheme()})
	return err
}

// controlPlane returns the KubeadmControlPlane.
func (k *kubeadmGuests) controlPlane(ctx context.Context) (*kcpv1.KubeadmControlPlane, error) {
	kcp := &kcpv1.KubeadmControlPlane{}
	return kcp, k.m.cl.Get(ctx, k.key(k.name+"-control-plane"), kcp)
}

// complete waits until Cluster API is content with all of the Cluster: the one member of etcd
// among it, which KubeadmControlPlane has asked through the API server.
func (k *kubeadmGuests) complete(t *testing.T, began time.Time) {
	t.Helper()
	k.await(t, began, "KubeadmControlPlane and Cluster are available, etcd has one healthy member",
		func(ctx context.Context) error {
			kcp, err := k.controlPlane(ctx)
			if err != nil {
				return err
			}
			for _, name := range []string{
				kcpv1.KubeadmControlPlaneAvailableCondition, kcpv1.KubeadmControlPlaneEtcdClusterHealthyCondition,
				kcpv1.KubeadmControlPlaneControlPlaneComponentsHealthyCondition,
			} {
				err = errors.Join(err, condition(kcp.Status.Conditions, name))
			}
			if n := ptrOr(kcp.Status.ReadyReplicas); n != 1 {
				err = errors.Join(err, fmt.Errorf("%d machines of the control plane are ready", n))
			}
			return errors.Join(err, k.running(ctx), k.available(ctx))
		})
}

// running: both Machines are, as KubeadmControlPlane and the pool have them, and their Nodes
// are Ready.
func (k *kubeadmGuests) running(ctx context.Context) error {
	machines, err := k.machines(ctx)
	if err != nil || len(machines) != 2 {
		return fmt.Errorf("%d Machines, %w", len(machines), err)
	}
	for i := range machines {
		m := &machines[i]
		if m.Status.Phase != string(clusterv1.MachinePhaseRunning) {
			err = errors.Join(err, fmt.Errorf("Machine %s is %s", m.Name, m.Status.Phase))
		}
		err = errors.Join(err, condition(m.Status.Conditions, clusterv1.MachineNodeHealthyCondition))
	}
	return err
}

// show logs what kubectl says of the cluster.
func (k *kubeadmGuests) show(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "nodes", "-o", "wide"},
		{"get", "pods", "-A", "-o", "wide"},
	} {
		cmd := exec.CommandContext(t.Context(), k.m.Cluster.Kubectl(), append(args, "--kubeconfig", k.kubeconfig)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v", cmd.Args, err)
		}
		t.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
	}
}

// compareIDs: Machine, MCMMachine and Node have one providerID.
func (k *kubeadmGuests) compareIDs(t *testing.T) {
	t.Helper()
	machines, err := k.machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range machines {
		m, infra, node := &machines[i], &infrav1.MCMMachine{}, &corev1.Node{}
		err := errors.Join(k.m.cl.Get(t.Context(), k.key(m.Spec.InfrastructureRef.Name), infra),
			k.nodes.Get(t.Context(), client.ObjectKey{Name: m.Status.NodeRef.Name}, node))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("providerIDs of %s: Machine %q, MCMMachine %q, Node %q", m.Name, m.Spec.ProviderID, infra.Spec.ProviderID,
			node.Spec.ProviderID)
		if id := m.Spec.ProviderID; id == "" || infra.Spec.ProviderID != id || node.Spec.ProviderID != id {
			t.Errorf("the providerIDs of %s differ", m.Name)
		}
	}
}
