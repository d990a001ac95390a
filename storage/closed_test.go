package storage

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"
)

// TestClose_EveryMethod: after Close every method of a store says that the store is closed.
func TestClose_EveryMethod(t *testing.T) {
	s, _ := newStore(t)
	put(t, s, "a", 1)
	sound(t, s)
	told := map[string]bool{"Close": true, "Health": true, "ProveMark": true} // methods that need no rows
	v := reflect.ValueOf(s)
	for i := range v.NumMethod() {
		name, m := v.Type().Method(i).Name, v.Method(i)
		results := m.Type().NumOut()
		if results == 0 || m.Type().Out(results-1) != reflect.TypeFor[error]() || told[name] {
			continue
		}
		var args []reflect.Value
		for at := range m.Type().NumIn() {
			switch in := m.Type().In(at); in {
			case reflect.TypeFor[context.Context]():
				args = append(args, reflect.ValueOf(ctx))
			case reflect.TypeFor[time.Time]():
				args = append(args, reflect.ValueOf(time.Unix(1, 0)))
			case reflect.TypeFor[Keys]():
				args = append(args, reflect.ValueOf(Keys{Series: "a"}))
			case reflect.TypeFor[string]():
				args = append(args, reflect.ValueOf("a"))
			case reflect.TypeFor[int]():
				args = append(args, reflect.ValueOf(1))
			case reflect.TypeFor[Code]():
				args = append(args, reflect.ValueOf(code(1)))
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		if err, _ := m.Call(args)[results-1].Interface().(error); !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}
