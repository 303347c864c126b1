package capi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
)

// Edited reports whether the spec of a template has changed since it was first
// observed, which its annotation infrav1.SpecHashAnnotation records. first is the
// value to write there; empty if it is there. A copy of a template carries the
// value of the other object, which does not count.
func Edited(o client.Object, spec any) (edited bool, first string, err error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return false, "", fmt.Errorf("encode spec: %w", err)
	}
	sum := sha256.Sum256(text)
	hash := hex.EncodeToString(sum[:8])
	uid, seen, ok := strings.Cut(o.GetAnnotations()[infrav1.SpecHashAnnotation], "/")
	if ok && uid == string(o.GetUID()) {
		return seen != hash, "", nil
	}
	return false, string(o.GetUID()) + "/" + hash, nil
}

// SpecUnchangedCondition returns the condition SpecUnchanged of a template of that
// kind. path is where a MachineDeployment names such a template.
//
//nolint:revive // edited is what the condition tells
func SpecUnchangedCondition(edited bool, kind, path string) metav1.Condition {
	c := metav1.Condition{
		Type: infrav1.SpecUnchangedCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonUnchanged,
	}
	if edited {
		c.Status, c.Reason = metav1.ConditionFalse, infrav1.ReasonEditedInPlace
		c.Message = fmt.Sprintf("spec.template was edited in place: existing machines keep the old template, and new ones "+
			"differ from them; undo the change, and name a new %s in %s of the MachineDeployment to roll it out", kind, path)
	}
	return c
}

// OwnedByClusterClass reports whether o is a template that a ClusterClass makes
// templates from. The names in it may be placeholders, and no machine is ever made
// from it.
func OwnedByClusterClass(o client.Object) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.Kind == "ClusterClass"
	})
}
