package vm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// FollowsTags reports whether the VMs of a MachineClass get its tags when they change.
func FollowsTags(o client.Object) bool {
	return o.GetDeletionTimestamp().IsZero() && o.GetAnnotations()[machinev1.UpdateTagsAnnotation] == "true"
}

// recordForCreate returns the record that has to be persisted before a VM of the class is
// created, given the last one: the keys that it may get. first is set if no request for the
// VM has been sent yet. Only the first request, and one like the last, makes it certain which
// tags the VM has. There is no record of a VM whose class has never let it follow its tags.
func recordForCreate(r class.Resolved, last string, first bool) string {
	tagger, ok := r.Driver.(cloud.Tagger)
	follows := ok && r.Object != nil && FollowsTags(r.Object)
	if !follows && last == "" {
		return ""
	}
	was, is := readRecord(last), tagRecord{}
	if ok {
		is = recordOf(tagger.UserTags(r.Class))
	}
	if follows && (first && last == "" || was.Hash == is.Hash) {
		return is.String()
	}
	return was.with(is).String() // an earlier request, with other tags, may have made the VM
}

// UpdateTags changes the tags of the machine's VM to those of its class, where the class asks
// for it, and they are not known to be the same already: then nothing else about the class
// matters. It records first which keys the VM may get, so that they are removed again should
// the class lose them. A VM that is not there needs no tags. since is when the tags were first
// found not to be updated; zero is now.
func (e *Engine) UpdateTags(ctx context.Context, m *Machine, since time.Time) (Upkeep, error) {
	err := e.updateTags(ctx, m)
	failures := e.countFailures(m.Ref().OwnerID, err, func(n *memory) *int { return &n.tagFailures })
	unsupported, ok := errors.AsType[*cloud.Error](err)
	switch {
	case err == nil:
		return Upkeep{None: true}, nil
	case ok && unsupported.Reason == cloud.ReasonTagsUnsupported:
		return Upkeep{
			Reason:  unsupported.Reason,
			Message: "The tags of the VM do not follow the class: " + unsupported.Err.Error(),
		}, nil
	}
	return e.failed(err, failures, since, func(err error) string {
		return fmt.Sprintf("The tags of the VM could not be updated: %s; correct the cause (retried automatically)", err)
	})
}

func (e *Engine) updateTags(ctx context.Context, m *Machine) error {
	if m.ClassErr != nil || m.Class.Object == nil || !FollowsTags(m.Class.Object) {
		return m.ClassErr
	}
	tagger, ok := m.Class.Driver.(cloud.Tagger)
	if ok {
		is, was := recordOf(tagger.UserTags(m.Class.Class)), readRecord(m.State.Tags)
		if was.Hash == is.Hash {
			return nil
		}
		if err := m.Class.Err(cloud.BlocksCreate); err != nil {
			return err // what is not understood of the class may be its tags
		}
		return e.setTags(ctx, m, was, is)
	}
	if err := m.Class.Err(cloud.BlocksCreate); err != nil {
		return err // it may name the wrong cloud
	}
	return cloud.Errorf(cloud.Invalid, "set tags", cloud.ReasonTagsUnsupported,
		"the driver of cloud %s cannot change the tags of VMs that exist; roll the machines out, or remove annotation %s "+
			"from MachineClass %s", m.Class.Driver.Traits().Name, machinev1.UpdateTagsAnnotation, m.Class.Object.Name)
}

// setTags changes the tags of a VM from those of one record to those of another.
func (e *Engine) setTags(ctx context.Context, m *Machine, was, is tagRecord) error {
	account, err := m.Class.Account(ctx)
	if err != nil {
		return err
	}
	if may := was.with(is).String(); may != m.State.Tags {
		if err := m.save(ctx, func(s *State) { s.Tags = may }); err != nil {
			return fmt.Errorf("record keys of tags: %w", err)
		}
	}
	obsolete := slices.DeleteFunc(slices.Clone(was.Keys), func(key string) bool { return slices.Contains(is.Keys, key) })
	ref := m.Ref()
	if err := cloud.SetTags(ctx, account, ref, obsolete); err != nil {
		if cloud.CodeOf(err) != cloud.NotFound {
			return err
		}
		known, err := e.identify(ctx, m)
		if known && err == nil {
			err = cloud.SetTags(ctx, account, m.Ref(), obsolete)
		}
		if !known || err != nil {
			return err
		}
	}
	if err := m.save(ctx, func(s *State) { s.Tags = is.String() }); err != nil {
		return fmt.Errorf("record tags: %w", err)
	}
	loggerOf(ctx, ref).Info("Updated tags of VM", "providerID", ref.ProviderID, "keys", is.Keys, "removed", obsolete)
	return nil
}

// tagRecord is which tags a VM has got.
type tagRecord struct {
	Keys []string `json:"keys"`           // that it has, or may have, sorted
	Hash string   `json:"hash,omitempty"` // of keys and values; empty while they are not certain
}

// recordOf is the record of a VM that has these tags.
func recordOf(tags map[string]string) tagRecord {
	const length = 8
	text, _ := json.Marshal(tags) // sorted, and strings only, so it never fails
	sum := sha256.Sum256(text)
	return tagRecord{append([]string{}, slices.Sorted(maps.Keys(tags))...), hex.EncodeToString(sum[:length])}
}

// readRecord reads a record. One that cannot be read knows nothing.
func readRecord(text string) tagRecord {
	var r tagRecord
	if json.Unmarshal([]byte(text), &r) != nil {
		return tagRecord{}
	}
	return r
}

// with is the record of a VM that may have the tags of both.
func (r tagRecord) with(other tagRecord) tagRecord {
	keys := slices.Concat(r.Keys, other.Keys)
	slices.Sort(keys)
	return tagRecord{Keys: slices.Compact(keys)}
}

// String is the record as it is persisted.
func (r tagRecord) String() string {
	text, _ := json.Marshal(r) // strings only, so it never fails
	return string(text)
}
