package main

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// bury deletes the Node of a VM that is gone, as a cloud's controller manager
// does, and forgets the VM.
func (f *fleet) bury(ctx context.Context, k *kubelet) time.Duration {
	if f.client != nil && f.options.deleteNodes && k.tried {
		if err := f.deleteNode(ctx, k.nodeName, k.providerID); err != nil {
			return f.complain(k, "Cannot delete the node of a VM that is gone", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.kubelet, k.id)
	if f.nodes[k.nodeName] == k {
		delete(f.nodes, k.nodeName)
	}
	return 0
}

// deleteNode deletes a Node if it is that of this VM.
func (f *fleet) deleteNode(ctx context.Context, name, providerID string) error {
	nodes := f.client.CoreV1().Nodes()
	node, err := nodes.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if node.Spec.ProviderID != providerID || node.DeletionTimestamp != nil {
		return nil
	}
	err = nodes.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(node.UID)}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it went, or it is another one now
	}
	return err
}

// findLeftovers deletes, once, the Nodes of VMs that went while this process
// did not run. Nodes of VMs that this cloud never had are not touched.
func (f *fleet) findLeftovers(ctx context.Context) {
	if !f.options.deleteNodes {
		return
	}
	const retry = time.Second
	for ctx.Err() == nil {
		err := f.deleteLeftovers(ctx)
		if err == nil {
			return
		}
		sleep(ctx, retry)
	}
}

func (f *fleet) deleteLeftovers(ctx context.Context) error {
	var decoder sim.Driver
	gone := func(providerID string) bool {
		id, ok := decoder.DecodeProviderID(providerID)
		r, _, known := f.cloud.Look(id)
		return ok && known && r.VM != nil && r.VM.State == sim.StateGone
	}
	var all error
	page := metav1.ListOptions{Limit: 500}
	for {
		nodes, err := f.client.CoreV1().Nodes().List(ctx, page)
		if err != nil {
			return err
		}
		for _, node := range nodes.Items {
			if gone(node.Spec.ProviderID) {
				all = errors.Join(all, f.deleteNode(ctx, node.Name, node.Spec.ProviderID))
			}
		}
		if page.Continue = nodes.Continue; page.Continue == "" {
			return all
		}
	}
}
