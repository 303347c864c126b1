package steps

import (
	"context"
	"encoding/json"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
)

// stored is a Record and the ConfigMap that it was read from.
type stored struct {
	migration.Record
	object *corev1.ConfigMap     // nil: it has not been written yet
	lease  *coordinationv1.Lease // as it was last read or written; nil: there is none, or another command has it
	backup []byte                // to be written with it; nil: the backup stays as it is
}

// load reads the Record of a pool; one that was never moved has no object.
func load(ctx context.Context, c client.Reader, p migration.Pool) (*stored, error) {
	object := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: migration.RecordName(p)}, object)
	if apierrors.IsNotFound(err) {
		return &stored{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of %s: %w", p, err)
	}
	r, err := migration.DecodeRecord(object)
	return &stored{Record: r, object: object}, err
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
				Namespace: s.Pool.Namespace, Name: migration.RecordName(s.Pool),
				Labels: map[string]string{machinev1.MigrationLabel: string(s.Pool.Kind)},
			},
			Data: map[string]string{migration.RecordKey: string(text)},
		}
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("write the record of %s: %w", s.Pool, err)
		}
		s.object = object
		return nil
	}
	changed := s.object.DeepCopy()
	changed.Data = map[string]string{migration.RecordKey: string(text)}
	if s.backup != nil {
		changed.BinaryData = map[string][]byte{migration.BackupKey: s.backup}
	}
	if err := c.Patch(ctx, changed, client.MergeFromWithOptions(s.object,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the record of %s: %w", s.Pool, err)
	}
	s.object, s.backup = changed, nil
	return nil
}
