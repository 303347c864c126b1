package capi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
)

// Edited reports whether the spec of a template is another one than was seen first,
// which its annotation infrav1.SpecHashAnnotation tells. first is what to write
// there, empty if it is there: a copy has another object's.
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
