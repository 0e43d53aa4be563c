/* Starts the API viewer; requests tried in it carry the session's CSRF token. */
const place = document.getElementById("swagger");
const token = document.querySelector("input[name=csrfmiddlewaretoken]").value;

window.SwaggerUIBundle({
  url: place.dataset.schema,
  domNode: place,
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: -1,
  requestInterceptor: (request) => {
    if (new URL(request.url, location.href).origin === location.origin) request.headers["X-CSRFToken"] = token;
    return request;
  },
});
