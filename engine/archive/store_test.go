package archive

import (
	"context"
	"net"
	"net/http"
	"testing"

	"dtegate/engine/archive/archivetest"
)

const (
	access = archivetest.Access
	secret = archivetest.Secret
	bucket = archivetest.Bucket
)

// store is a real S3 server.
type store struct{ *archivetest.Store }

func start(t *testing.T) store {
	t.Helper()
	return store{archivetest.Start(t)}
}

// archive opens the store's bucket; change may alter the options first.
func (s store) archive(t *testing.T, change func(*Options)) *Archive {
	t.Helper()
	o := Options{Endpoint: "http://s3.example", Bucket: bucket, AccessKey: access, Secret: secret, PathStyle: true,
		Transport: transport(t, s.Dial)}
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// transport returns a transport whose connections are closed with the test.
func transport(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	tr := &http.Transport{DialContext: dial}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}
