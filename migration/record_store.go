package migration

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Keys of the ConfigMap that holds a Record.
const (
	recordKey = "record.json"
	backupKey = "backup.json.gz"
)

// recordName is the name of the ConfigMap of a pool.
func recordName(p Pool) string { return "mcm-migration-" + string(p.Kind) + "-" + p.Name }

// stored is a Record and the ConfigMap that it was read from.
type stored struct {
	Record
	object *corev1.ConfigMap // nil: it has not been written yet
	backup []byte            // to be written with it; nil: the backup stays as it is
}

// load reads the Record of a pool; nil if it was never moved.
func load(ctx context.Context, c client.Reader, p Pool) (*stored, error) {
	object := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: recordName(p)}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // a pool that was never moved is no failure
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of %s: %w", p, err)
	}
	return decodeRecord(object)
}

func decodeRecord(object *corev1.ConfigMap) (*stored, error) {
	s := &stored{object: object}
	if err := json.Unmarshal([]byte(object.Data[recordKey]), &s.Record); err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s data[%s]: %w; it says how far a migration is: restore it, nothing is done "+
			"without it",
			object.Namespace, object.Name, recordKey, err)
	}
	return s, nil
}

// Records returns the records of all pools of a namespace, empty is all
// namespaces, in the order of their names. What cannot be read is an error.
func Records(ctx context.Context, c client.Reader, namespace string) ([]Record, error) {
	var list corev1.ConfigMapList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{machinev1.MigrationLabel}); err != nil {
		return nil, fmt.Errorf("list the records of migrations: %w", err)
	}
	var out []Record
	for i := range list.Items {
		s, err := decodeRecord(&list.Items[i])
		if err != nil {
			return nil, err
		}
		out = append(out, s.Record)
	}
	return out, nil
}

// save writes s, and fails with a conflict if somebody else did since it was read.
func (s *stored) save(ctx context.Context, c client.Client) error {
	text, err := json.MarshalIndent(s.Record, "", "  ")
	if err != nil {
		return err
	}
	if s.object == nil {
		object := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.Pool.Namespace, Name: recordName(s.Pool),
				Labels: map[string]string{machinev1.MigrationLabel: string(s.Pool.Kind)},
			},
			Data: map[string]string{recordKey: string(text)},
		}
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("write the record of %s: %w", s.Pool, err)
		}
		s.object = object
		return nil
	}
	changed := s.object.DeepCopy()
	changed.Data = map[string]string{recordKey: string(text)}
	if s.backup != nil {
		changed.BinaryData = map[string][]byte{backupKey: s.backup}
	}
	if err := c.Patch(ctx, changed, client.MergeFromWithOptions(s.object,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the record of %s: %w", s.Pool, err)
	}
	s.object, s.backup = changed, nil
	return nil
}
