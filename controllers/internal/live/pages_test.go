package live

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pagedReader returns one page for each token.
type pagedReader struct {
	client.Reader
	pages map[string]corev1.SecretList
	asked []client.ListOptions
}

var errNoSuchPage = errors.New("no such page")

func (r *pagedReader) List(_ context.Context, into client.ObjectList, which ...client.ListOption) error {
	var options client.ListOptions
	options.ApplyOptions(which)
	r.asked = append(r.asked, options)
	page, ok := r.pages[options.Continue]
	if !ok {
		return errNoSuchPage
	}
	list := into.(*corev1.SecretList)
	if len(list.Items) > 0 {
		return errors.New("the list is not empty")
	}
	*list = page
	return nil
}

func secrets(next string, names ...string) corev1.SecretList {
	var list corev1.SecretList
	list.Continue = next
	for _, name := range names {
		list.Items = append(list.Items, corev1.Secret{})
		list.Items[len(list.Items)-1].Name = name
	}
	return list
}

func TestPages(t *testing.T) {
	t.Parallel()
	reader := &pagedReader{pages: map[string]corev1.SecretList{"": secrets("second", "a", "b"), "second": secrets("",
		"c")}}
	var got []string
	err := Pages(t.Context(), reader, func(page *corev1.SecretList) {
		for i := range page.Items {
			got = append(got, page.Items[i].Name)
		}
	}, client.InNamespace("n"))
	if err != nil || !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, options := range reader.asked {
		if options.Namespace != "n" || options.Limit != pageSize {
			t.Errorf("asked with %+v", options)
		}
	}
}

func TestPagesStopsAtAnError(t *testing.T) {
	t.Parallel()
	reader := &pagedReader{pages: map[string]corev1.SecretList{"": secrets("lost", "a")}}
	visits := 0
	err := Pages(t.Context(), reader, func(*corev1.SecretList) { visits++ })
	if !errors.Is(err, errNoSuchPage) || visits != 1 {
		t.Errorf("%d visits, %v", visits, err)
	}
}
