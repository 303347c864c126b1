package cluster_test

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

func TestRestoreBringsBackWhatWasBackedUp(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Options{})
	admin := newClient(t, c.Config())
	object := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if err := admin.Create(t.Context(), object("before")); err != nil {
		t.Fatal(err)
	}
	if err := c.Backup(backup); err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), object("after")); err != nil {
		t.Fatalf("etcd does not go on after a backup: %v", err)
	}
	if err := c.Restore(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(object("before")), object("")); err != nil {
		t.Errorf("what was there before the backup: %v", err)
	}
	err := admin.Get(t.Context(), client.ObjectKeyFromObject(object("after")), object(""))
	if !apierrors.IsNotFound(err) {
		t.Errorf("what was made after the backup: %v, want that it is not found", err)
	}
}
