package vm

import (
	"context"
	"strconv"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/claims"
)

// Records are the records of a VM that both APIs keep in the same annotations of its owner, which
// survive a move of the object and a restart of the manager. Those that an API keeps elsewhere, or
// writes together with other fields, are methods of its own owner.
type Records struct {
	// Object returns the owner as the pass has written it last.
	Object func() client.Object
	// Patch persists what change makes of the owner. It fails on a stale object.
	Patch func(ctx context.Context, change func(client.Object)) error
	// Noted is what NoteScope has noted in this pass. Whoever writes the object takes it along with
	// CarryScope.
	Noted *string
	// Claims are who else may have the owner's id.
	Claims claims.Claims
	// Cluster is the id of the Cluster that the VM is tagged with; empty accepts any.
	Cluster string
}

// CarryScope adds a scope that was noted to a change of an object, if that changes anything; empty adds
// nothing.
func CarryScope[T interface {
	client.Object
	DeepCopy() T
}](noted string, change func(T)) func(T) {
	if noted == "" {
		return change
	}
	return func(o T) {
		before := o.DeepCopy()
		change(o)
		if !equality.Semantic.DeepEqual(before, o) {
			machinev1.SetAnnotation(o, machinev1.CloudScopeAnnotation, noted)
		}
	}
}

// Scope is the record of the account in which the VM is; empty if there is none.
func (r Records) Scope() string { return r.get(machinev1.CloudScopeAnnotation) }

// NoteScope has the next write of the object record a scope.
func (r Records) NoteScope(scope string) { *r.Noted = scope }

// RecordScope persists a scope now.
func (r Records) RecordScope(ctx context.Context, scope string) error {
	*r.Noted = ""
	return r.set(ctx, machinev1.CloudScopeAnnotation, scope)
}

// HasOwnerID reports whether the owner has its id on record.
func (r Records) HasOwnerID() bool { return r.get(machinev1.OwnerIDAnnotation) != "" }

// MayHaveLostOwnerID reports whether it has none, or one that may stand in for one that was lost: the UID of the
// object, or a random UUID, which is that of the object that this one is a copy of. What a MachineSet gives is
// derived, and stays.
func (r Records) MayHaveLostOwnerID() bool {
	stored := r.get(machinev1.OwnerIDAnnotation)
	id, err := uuid.Parse(stored)
	return stored == "" || stored == string(r.Object().GetUID()) || err == nil && id.Version() == 4
}

// ClusterID is the id of the Cluster that the VM is tagged with; empty accepts any.
func (r Records) ClusterID() string { return r.Cluster }

// Claimant is another object of either API with that owner id or one of these providerIDs; empty if there is none.
func (r Records) Claimant(ctx context.Context, ownerID string, providerIDs ...string) (string, error) {
	return r.Claims.Other(ctx, r.Object(), ownerID, providerIDs...)
}

// RecordOwnerID persists the owner id.
func (r Records) RecordOwnerID(ctx context.Context, ownerID string) error {
	return r.set(ctx, machinev1.OwnerIDAnnotation, ownerID)
}

func (r Records) get(annotation string) string { return r.Object().GetAnnotations()[annotation] }

// set persists an annotation; an empty value removes it.
func (r Records) set(ctx context.Context, annotation, value string) error {
	return r.Patch(ctx, func(o client.Object) { machinev1.SetOrRemoveAnnotation(o, annotation, value) })
}

// Zone is the zone that was chosen for the VM; empty if none was.
func (r Records) Zone() string { return r.get(machinev1.ZoneAnnotation) }

// RecordZone persists such a zone.
func (r Records) RecordZone(ctx context.Context, zone string) error {
	return r.set(ctx, machinev1.ZoneAnnotation, zone)
}

// RecordAttempt persists the number of the next attempt.
func (r Records) RecordAttempt(ctx context.Context, number int) error {
	return r.set(ctx, machinev1.CreateAttemptAnnotation, strconv.Itoa(number))
}

// AppliedTags is the record of the tags that the VM has got.
func (r Records) AppliedTags() string { return r.get(machinev1.AppliedTagsAnnotation) }

// RecordTags persists such a record.
func (r Records) RecordTags(ctx context.Context, record string) error {
	return r.set(ctx, machinev1.AppliedTagsAnnotation, record)
}

// KeepsBootData reports whether the cloud may keep boot data of the VM.
func (r Records) KeepsBootData() bool { return r.get(machinev1.BootDataAnnotation) != "" }

// ForgetBootData persists that it does not.
func (r Records) ForgetBootData(ctx context.Context) error {
	return r.set(ctx, machinev1.BootDataAnnotation, "")
}

// Members is the record of the load balancers of the VM.
func (r Records) Members() string { return r.get(machinev1.LoadBalancersAnnotation) }

// RecordMembers persists such a record.
func (r Records) RecordMembers(ctx context.Context, record string) error {
	return r.set(ctx, machinev1.LoadBalancersAnnotation, record)
}

// Substitute is the class with which the VM is deleted in place of its own; empty if there is none.
func (r Records) Substitute() (name, place string) { return machinev1.SubstituteClass(r.Object()) }

// RecordSubstitute persists such a class.
func (r Records) RecordSubstitute(ctx context.Context, name, place string) error {
	return r.set(ctx, machinev1.SubstituteClassAnnotation, name+"/"+place)
}
