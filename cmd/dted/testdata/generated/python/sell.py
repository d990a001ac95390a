"""Sells with the models that quicktype makes of the contract, and prints what it read through them."""
import json
import os
import urllib.error
import urllib.request

import dte


def call(method, path, body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    headers.update({"x-api-token": os.environ["DTE_TOKEN"], "Content-Type": "application/json"})
    data = None if body is None else json.dumps(body.to_dict()).encode()
    request = urllib.request.Request(os.environ["DTE_URL"] + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=75) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def show(name, r):
    document = r.dte_json
    print(name + ":", r.codigo_generacion, r.estado.value, r.total, str(bool(r.sello_recibido)).lower(), str(r.error_tecnico is None).lower(),
          document.cuerpo_documento[0].precio_uni, document.resumen.total_pagar, document.identificacion.tipo_dte)


sale = dte.Solicitud01(
    receptor=dte.ReceptorConsumidor(nombre="Ana Morales", tipo_documento="13", num_documento="012345678", correo="ana@example.com"),
    items=[
        dte.Item(descripcion="Equipo", cantidad=1, precio_unitario=1234567.89, tipo_impuesto=dte.TipoImpuesto.GRAVADO),
        dte.Item(descripcion="Flete", cantidad=1, precio_unitario=1),
    ],
    descuento_global=dte.DescuentoGlobal(gravada=1),
    condicion_operacion=1,
)
for name in ("sold", "again"):
    status, answer = call("POST", "/dte/dte01", sale, Idempotency_Key="venta-py-1", Prefer="wait=30")
    assert status == 201, answer
    record = dte.RespuestaRegistro.from_dict(answer).data
    show(name, record)
status, answer = call("GET", "/dte/documento/" + record.codigo_generacion)
assert status == 200, answer
show("read", dte.RespuestaRegistro.from_dict(answer).data)

sale.items[0].cantidad, sale.items[1].precio_unitario = 0, 1.123456789
status, answer = call("POST", "/dte/dte01", sale)
assert status == 400, answer
refusal = dte.Error.from_dict(answer)
print("refused:", str(refusal.type is dte.TypeEnum.VALIDATION_ERROR).lower())
for fault in refusal.errors:
    print("fault:", fault.path, fault.code)
