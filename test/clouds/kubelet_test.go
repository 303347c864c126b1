package clouds

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// kubelets are those of all VMs of a cloud, and the cloud's controller manager.
type kubelets struct {
	cloud backend
	admin client.Client // of the cluster

	mu    sync.Mutex
	nodes map[string]string // of the VMs that have joined, by id
	last  error             // what went wrong last
}

// run plays until ctx ends.
func (k *kubelets) run(ctx context.Context) {
	const period = 200 * time.Millisecond
	for {
		began := time.Now()
		err := k.look(ctx)
		k.mu.Lock()
		k.last = err
		k.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(stack.Pause(period, time.Since(began))):
		}
	}
}

// error returns what went wrong at the last look.
func (k *kubelets) error() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// look lets new VMs join, and deletes the Nodes of VMs that are gone.
func (k *kubelets) look(ctx context.Context) error {
	vms, err := k.cloud.VMs(ctx)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	var errs []error
	for _, v := range vms {
		there[v.ID] = true
		if _, joined := k.nodes[v.ID]; joined {
			continue
		}
		if err := join(ctx, v); err != nil {
			errs = append(errs, fmt.Errorf("VM %s does not join: %w", v.ID, err))
			continue
		}
		k.nodes[v.ID] = v.NodeName
	}
	for _, id := range slices.Sorted(maps.Keys(k.nodes)) {
		if there[id] {
			continue
		}
		err := k.admin.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.nodes[id]}})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, err)
			continue
		}
		delete(k.nodes, id)
	}
	return errors.Join(errs...)
}

// join registers the node of a VM with nothing but what it boots with.
func join(ctx context.Context, v vm) error {
	var boot struct{ Server, CAData, Token string }
	if err := yaml.Unmarshal(v.UserData, &boot); err != nil {
		return err
	}
	ca, err := base64.StdEncoding.DecodeString(boot.CAData)
	if err != nil || boot.Token == "" || strings.Contains(boot.Token, "<") {
		return errors.New("its user data has no token or no authority")
	}
	api, err := kubernetes.NewForConfig(&rest.Config{
		Host: boot.Server, BearerToken: boot.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	})
	if err != nil {
		return err
	}
	_, err = api.CoreV1().Nodes().Create(ctx, nodeOf(v), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		there, err := api.CoreV1().Nodes().Get(ctx, v.NodeName, metav1.GetOptions{})
		if err == nil && there.Spec.ProviderID != v.ProviderID {
			err = fmt.Errorf("node %s is that of %s", v.NodeName, there.Spec.ProviderID)
		}
		return err
	}
	return err
}

// nodeOf is the Node of a VM as kubelet and cloud controller manager make it.
func nodeOf(v vm) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   v.NodeName,
		Labels: map[string]string{corev1.LabelHostname: v.NodeName},
	}}
	n.Spec.ProviderID = v.ProviderID
	n.Status.Capacity = corev1.ResourceList{
		"cpu": resource.MustParse("2"), "memory": resource.MustParse("2Gi"),
		"pods": resource.MustParse("110"),
	}
	n.Status.Allocatable = n.Status.Capacity
	now := metav1.Now()
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now,
		LastTransitionTime: now,
	}}
	if v.Address != "" {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: v.Address}}
	}
	return n
}
