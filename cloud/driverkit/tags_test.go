package driverkit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTags(t *testing.T) {
	t.Parallel()
	given := map[string]string{
		"mcm.cluster.x-k8s.io/cluster-id": "a/b", "kubernetes.io-cluster-x": "1", "of/a-user": "2",
	}
	want := map[string]string{
		"mcm.cluster.x-k8s.io-cluster-id": "a/b", "kubernetes.io-cluster-x": "1", "of/a-user": "2",
	}
	encoded := EncodeTags(given)
	if diff := cmp.Diff(want, encoded); diff != "" {
		t.Errorf("only keys of this project are encoded (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(given, DecodeTags(encoded)); diff != "" {
		t.Errorf("what was encoded comes back (-want +got):\n%s", diff)
	}
	if EncodeTags(nil) == nil {
		t.Error("callers add tags of their own, so the result is never nil")
	}
}
