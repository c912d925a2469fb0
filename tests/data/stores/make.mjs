// Makes adk-js-2.0.0.db with the npm packages @google/adk 2.0.0 and @mikro-orm/sqlite 6.6:
//   npm install @google/adk@2.0.0 @mikro-orm/sqlite@6.6.16 && node make.mjs sqlite://adk-js-2.0.0.db
import { DatabaseSessionService } from "@google/adk/sessions/database";
import { createEvent } from "@google/adk";

const service = new DatabaseSessionService(process.argv[2]);
const state = { city: "Paris", "user:name": "Ann", "app:units": "C", "temp:x": 1, seeded: [1, 2] };
const session = await service.createSession({ appName: "weather", userId: "ann", sessionId: "js-1", state });
const append = (event) => service.appendEvent({ session, event: createEvent({ invocationId: "i1", ...event }) });
await append({
  author: "user",
  timestamp: 1767225600123,
  content: { role: "user", parts: [{ text: "Weather in Paris?" }] },
});
await append({
  author: "weather",
  timestamp: 1767225601456,
  content: {
    role: "model",
    parts: [{ functionCall: { id: "c1", name: "get_weather", args: { cityName: "Paris", some_key: 1 } } }],
  },
  usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 3, totalTokenCount: 8 },
});
await append({
  author: "weather",
  timestamp: 1767225602789,
  content: {
    role: "user",
    parts: [
      { functionResponse: { id: "c1", name: "get_weather", response: { skyColor: "blue", wind_speed: 3 } } },
      { inlineData: { mimeType: "image/png", data: Buffer.from([251, 255, 0, 1]).toString("base64") } },
    ],
  },
  actions: {
    stateDelta: { lastCity: "Paris", "user:visits": 1, "app:calls": 1, "temp:y": 2, city: null },
    artifactDelta: {},
    requestedAuthConfigs: {},
    requestedToolConfirmations: {},
  },
});
await append({
  author: "weather",
  timestamp: 1767225603000,
  content: { role: "model", parts: [{ text: "It is sunny." }] },
  customMetadata: { myKey: { inner_key: 1 } },
});
await service.createSession({ appName: "weather", userId: "bob", sessionId: "js-2", state: {} });
process.exit(0);
