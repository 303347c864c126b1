package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
)

// attachmentByVolume is the index of VolumeAttachments by the name of their
// PersistentVolume. Attachments of an inline volume are not in it.
const attachmentByVolume = "index.va-volume"

// Indexes are the indexes of the target cluster that a Drainer needs besides
// index.Target.
func Indexes() []index.Index {
	return []index.Index{{
		Object: &storagev1.VolumeAttachment{}, Field: attachmentByVolume,
		Extract: func(o client.Object) []string {
			if v := volumeOf(o.(*storagev1.VolumeAttachment)); v != "" {
				return []string{v}
			}
			return nil
		},
	}}
}

// A volume is one that a drain waits for.
type volume struct {
	name string // of the PersistentVolume
	id   string // its ID in the cloud
}

// volumeOf returns the name of the PersistentVolume that is attached; "" for an
// inline volume, which has none.
func volumeOf(va *storagev1.VolumeAttachment) string {
	if v := va.Spec.Source.PersistentVolumeName; v != nil {
		return *v
	}
	return ""
}

// volumesOf returns the volumes that are detached when the pod has terminated. A
// volume that another pod of the node uses stays attached, and one of another cloud
// cannot be recognised: the drain waits for neither.
func (p *pass) volumesOf(ctx context.Context, pod *corev1.Pod) ([]volume, error) {
	var volumes []volume
	for _, key := range mountsOf(pod) {
		if p.claims[key] > 1 {
			continue
		}
		var claim corev1.PersistentVolumeClaim
		err := p.drainer.target.Client.Get(ctx, key, &claim)
		if apierrors.IsNotFound(err) || (err == nil && claim.Spec.VolumeName == "") {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading claim %s of pod %s: %w", key, name(pod), err)
		}
		v, _, err := p.volume(ctx, claim.Spec.VolumeName)
		if err != nil {
			return nil, err
		}
		if v.id != "" {
			volumes = append(volumes, v)
		}
	}
	return volumes, nil
}

// volume returns a PersistentVolume and the claim that it is bound to. Its id is
// empty if it does not exist or is not of the machine's cloud.
func (p *pass) volume(ctx context.Context, key string) (volume, types.NamespacedName, error) {
	v := volume{name: key}
	var pv corev1.PersistentVolume
	err := p.drainer.target.Client.Get(ctx, client.ObjectKey{Name: key}, &pv)
	if apierrors.IsNotFound(err) || (err == nil && p.request.VolumeID == nil) {
		return v, types.NamespacedName{}, nil
	}
	if err != nil {
		return v, types.NamespacedName{}, fmt.Errorf("reading PersistentVolume %s: %w", key, err)
	}
	if id, ok := p.request.VolumeID(&pv.Spec); ok {
		v.id = id
	}
	var claim types.NamespacedName
	if ref := pv.Spec.ClaimRef; ref != nil {
		claim = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	return v, claim, nil
}

// attached returns those of the volumes that are attached to the node.
func attached(node *corev1.Node, volumes []volume) []volume {
	var still []volume
	for _, v := range volumes {
		if slices.ContainsFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool {
			return containsID(string(a.Name), v.id)
		}) {
			still = append(still, v)
		}
	}
	return still
}

// containsID reports whether the name of an attached volume contains the ID, not as a
// part of a longer one.
func containsID(text, id string) bool {
	if id == "" {
		return false
	}
	for from := 0; ; {
		i := strings.Index(text[from:], id)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(id)
		if (start == 0 || !isAlphanumeric(text[start-1])) && (end == len(text) || !isAlphanumeric(text[end])) {
			return true
		}
		from = start + 1
	}
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// attachedElsewhere reports whether every volume is attached to another node.
func (p *pass) attachedElsewhere(ctx context.Context, volumes []volume) (bool, error) {
	for _, v := range volumes {
		var list storagev1.VolumeAttachmentList
		if err := p.drainer.target.Client.List(ctx, &list, client.MatchingFields{attachmentByVolume: v.name}); err != nil {
			return false, fmt.Errorf("listing the attachments of PersistentVolume %s: %w", v.name, err)
		}
		if !slices.ContainsFunc(list.Items, func(va storagev1.VolumeAttachment) bool {
			return va.Status.Attached && va.Spec.NodeName != p.request.Node.Name
		}) {
			return false, nil
		}
	}
	return true, nil
}

// DeleteAttachments deletes every VolumeAttachment of the node, so that its volumes can
// be attached to other nodes although its kubelet does not report that they are
// unmounted. It does not wait for volumes to be detached. It returns the names of the
// attachments that could not be deleted, sorted; none if the node does not exist or
// has no volumes. It is meant for nodes that were drained by force.
func (d *Drainer) DeleteAttachments(ctx context.Context, node *corev1.Node) (remaining []string, err error) {
	if node == nil || len(node.Status.VolumesAttached) == 0 {
		return nil, nil
	}
	var all storagev1.VolumeAttachmentList
	if err := d.target.Client.List(ctx, &all, client.MatchingFields{index.AttachmentByNode: node.Name}); err != nil {
		return nil, fmt.Errorf("listing the attachments of node %s: %w", node.Name, err)
	}
	var failed []error
	for i := range all.Items {
		va := &all.Items[i]
		if va.DeletionTimestamp != nil {
			continue
		}
		if err := d.target.Client.Delete(ctx, va, client.Preconditions{UID: &va.UID}); err != nil &&
			!apierrors.IsNotFound(err) {
			remaining = append(remaining, va.Name)
			failed = append(failed, fmt.Errorf("deleting VolumeAttachment %s: %w", va.Name, err))
		}
	}
	slices.Sort(remaining)
	return remaining, errors.Join(failed...)
}
