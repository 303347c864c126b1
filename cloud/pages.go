package cloud

import "context"

type pagesKey struct{}

// CountPages returns a context in which count is called for each page that a listing asks the cloud for.
// It may be called from several goroutines.
func CountPages(ctx context.Context, count func()) context.Context {
	return context.WithValue(ctx, pagesKey{}, count)
}

// PageAsked tells whoever counts the pages of a listing that one is asked for. Without such a caller it does
// nothing.
func PageAsked(ctx context.Context) {
	if count, ok := ctx.Value(pagesKey{}).(func()); ok {
		count()
	}
}
