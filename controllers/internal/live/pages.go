// Package live reads lists from an API server, past the cache.
package live

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is how many objects one request returns.
const pageSize = 500

// Pages lists objects page by page and calls visit with each page. reader reads
// from the API server; which selects the objects, without a limit. It stops at
// the first request that fails.
func Pages[L any, P interface {
	*L
	client.ObjectList
}](ctx context.Context, reader client.Reader, visit func(page P), which ...client.ListOption) error {
	for token := ""; ; {
		page := P(new(L)) // a list that is decoded into twice keeps parts of its old items
		options := append([]client.ListOption{client.Limit(pageSize), client.Continue(token)}, which...)
		if err := reader.List(ctx, page, options...); err != nil {
			return fmt.Errorf("list %T: %w", page, err)
		}
		visit(page)
		if token = page.GetContinue(); token == "" {
			return nil
		}
	}
}
